"""
The daemon's store in a simulation: ``Store`` on top of the simulated ZooKeeper.

Every multi is led by checks of the claim and of the leadership among the daemons, as in the real
store. Faults: the session expires or is suspended, a connection breaks in the middle of a commit so
that an unknown part of it is durable, something happens between two multis of a commit, ZooKeeper
refuses some, and reads arrive late (``lanes``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from controller.core.model import (
    BrokerId,
    ControllerEpoch,
    Instant,
    RequestId,
    TopicPartition,
    ZkVersion,
)
from controller.core.pacing.throttle_settings import Entity
from controller.core.role.records import (
    ClaimFailed,
    ControllerClaimed,
    Deposed,
    LeadershipGained,
    LeadershipLost,
)
from controller.errors import CommitUnknownError, ControllerMovedError, SessionLostError
from controller.reactor.ports import (
    Check,
    Committed,
    Create,
    CreateSequential,
    Delete,
    Inbox,
    Operation,
    Rejected,
    SetData,
    ZnodeFamily,
)
from controller.reactor.reads import OWN_RECORDS
from controller.reactor.znode_operations import is_paperwork
from controller.zk.claims import GRACE_S
from controller.zk.multis import too_large
from controller.znodes import paths
from controller.znodes.brokers_and_controller import (
    decode_controller,
    decode_controller_epoch,
    encode_controller,
)
from tests.sim.lanes import Lanes
from tests.sim.leaderships import stand_for_leadership
from tests.sim.reads import SimReads
from tests.sim.sessions import SimSession
from tests.sim.store_faults import CommitFaults
from tests.sim.zookeeper import (
    NO_SESSION,
    AnyOperation,
    Make,
    SessionExpiredError,
    SimZooKeeper,
    TransactionFailedError,
    parent_of,
)
from tests.sim.zookeeper import Znode as SimZnode

if TYPE_CHECKING:
    from tests.sim.schedule import Schedule

RECONNECT_S: Final = (0.05, 0.5)


class Claim(NamedTuple):
    """A claim: its epoch, and the version of ``/controller_epoch`` that fences its writes."""

    epoch: ControllerEpoch
    version: ZkVersion


class SimStore:
    """One daemon's ZooKeeper: a session, renewed when it expires, a claim, and a leadership."""

    def __init__(
        self,
        zookeeper: SimZooKeeper,
        schedule: Schedule,
        inbox: Inbox,
        *,
        controller_id: BrokerId,
        session_timeout_s: float = 10.0,
        competes: bool = True,
        struck: Callable[[str], None] = lambda _: None,
    ) -> None:
        """
        Connect.

        Args:
            zookeeper: The server.
            schedule: Time and chance.
            inbox: Where answers go.
            controller_id: What ``/controller`` will name.
            session_timeout_s: When the server gives up a silent session.
            competes: Whether several daemons may run, so that ``/reassigner/epoch`` fences too.
            struck: Called with each fault that takes effect.

        """
        self._zookeeper = zookeeper
        self._schedule = schedule
        self._inbox = inbox
        self._controller_id = controller_id
        self._session_timeout_s = session_timeout_s
        self._competes = competes
        self._claim: Claim | None = None
        self._tried: Claim | None = None
        self._claiming = False
        """Whether a claim has no answer yet."""
        self._leadership: ZkVersion | None = None
        self.faults = CommitFaults(struck)
        self.lanes = Lanes(schedule, lambda: struck("reads_late"))
        self.session = self._open()
        self._reads = SimReads(zookeeper, self.session, inbox, self.lanes)

    @property
    def timeout_s(self) -> float:
        """The session's time-out; with ``ends`` it makes a ``SessionLease``."""
        return self._session_timeout_s

    @property
    def ends(self) -> Instant:
        """The time at which the server may expire the session, as far as this client knows."""
        return self.session.ends

    @property
    def inbox(self) -> Inbox:
        """The inbox that receives the answers."""
        return self._inbox

    @property
    def claim(self) -> Claim | None:
        """The claim this daemon believes it holds."""
        return self._claim

    # --- writes --------------------------------------------------------------------------------

    def commit(self, multis: Sequence[Sequence[Operation]]) -> list[Committed | Rejected]:
        """Write the multis in order; see ``Store.commit``."""
        fences = self._fences(multis)
        results: list[Committed | Rejected] = []
        for number, multi in enumerate(multis):
            if self.faults.breaks_before(number):
                self._break()
            self.faults.interrupt(multi, number)
            if not self.session.is_connected:
                raise CommitUnknownError("the connection to ZooKeeper is lost")
            results.append(self._write(fences, multi))
        if self.faults.breaks_at_the_end():
            self._break()
        return results

    def _break(self) -> None:
        self.session.suspend()
        self._schedule.call_between(*RECONNECT_S, self.session.resume)
        raise CommitUnknownError("the connection broke while waiting for an answer")

    def _write(self, fences: Sequence[Check], multi: Sequence[Operation]) -> Committed | Rejected:
        refused = too_large(multi) or self.faults.refused(multi)
        try:
            for operation in multi:
                if isinstance(operation, Create | CreateSequential):
                    self._make_parents(operation.path)
            # The fences are checked first: another refusal counts only if they hold.
            self._zookeeper.transact(self.session.id, fences if refused else [*fences, *multi])
        except SessionExpiredError as error:
            raise SessionLostError("the ZooKeeper session expired") from error
        except TransactionFailedError as error:
            if error.index < len(fences):
                raise ControllerMovedError("another controller is in charge") from error
            return Rejected(error.index - len(fences), error.error)
        return refused or Committed()

    def _make_parents(self, path: str) -> None:
        """Make a znode's parents, but never Kafka's; above all a deleted topic stays deleted."""
        if path.startswith(paths.CONFIGS):
            return
        topic = path.removeprefix(f"{paths.TOPICS}/").partition("/")[0]
        is_in_topic = path.startswith(f"{paths.TOPICS}/")
        if not is_in_topic or self._zookeeper.get(paths.topic_path(topic)) is not None:
            self._zookeeper.ensure(parent_of(path))

    def _fences(self, multis: Sequence[Sequence[Operation]]) -> list[Check]:
        fences: list[Check] = []
        if self._claim is not None:
            fences.append(Check(paths.CONTROLLER_EPOCH, self._claim.version))
        elif not is_paperwork(multis):
            raise ControllerMovedError("the controller role is not ours")
        if self._competes and self._leadership is None:
            raise ControllerMovedError("another daemon leads")
        return [*fences, *self._leads()]

    def _leads(self) -> list[Check]:
        """Return the fence of the leadership among the daemons."""
        return [] if self._leadership is None else [Check(paths.EPOCH, self._leadership)]

    # --- reads ---------------------------------------------------------------------------------

    def read(self, znode: ZnodeFamily) -> None:
        """Read a level and watch it."""
        self._reads.read(znode)

    def read_topics(self, topics: Sequence[str], *, read_generation: int) -> None:
        """Read topic znodes and watch them."""
        self._reads.read_topics(topics, read_generation=read_generation)

    def read_states(
        self, partitions: Sequence[TopicPartition], *, watch: bool, read_generation: int
    ) -> None:
        """Read partition states."""
        self._reads.read_states(partitions, watch=watch, read_generation=read_generation)

    def read_topic_trees(self, topics: Sequence[str]) -> None:
        """List the znodes of topics that are to be deleted."""
        self._reads.read_topic_trees(topics)

    def read_submissions(self, names: Sequence[str]) -> None:
        """Read requests as submitted."""
        self._reads.read_submissions(names)

    def read_accepted(self, request: RequestId) -> None:
        """Read the accepted entries of a request."""
        self._reads.read_accepted(request)

    def read_entity_configs(self, entities: Sequence[Entity]) -> None:
        """Read dynamic settings."""
        self._reads.read_entity_configs(entities)

    # --- the controller role -------------------------------------------------------------------

    def claim_controller(self, *, at_once: bool = False) -> None:
        """Try to take ``/controller``."""
        self._claiming = True
        self.session.send(lambda: self._try_claim(at_once=at_once))

    def _try_claim(  # noqa: PLR0911 - one return per reason
        self, *, at_once: bool, is_due: bool = False
    ) -> Callable[[], None]:
        """
        Claim at the server; repeated after a lost answer it finds its claim.

        Where a broker has the role, take only its znode, until its grace is over (``is_due``).
        """
        controller = self._zookeeper.get(paths.CONTROLLER)
        epoch = self._zookeeper.get(paths.CONTROLLER_EPOCH)
        known = None if epoch is None else decode_controller_epoch(epoch.data)
        if epoch is None or not isinstance(known, int):
            return self._claim_failed("/controller_epoch cannot be read")
        is_ours = controller is not None and controller.ephemeral_owner == self.session.id
        if is_ours and self._tried is not None and self._tried.epoch == known:
            return self._claimed(self._tried)
        if controller is not None:
            read = decode_controller(controller.data)
            if controller.ephemeral_owner == NO_SESSION or isinstance(read, str):
                return self._claim_failed("/controller is not an ordinary one")
        if self._competes and self._leadership is None:
            return self._claim_failed("another daemon leads")
        if controller is not None and not at_once and not (is_ours and is_due):
            return self._replace(controller, epoch)
        claim = Claim(ControllerEpoch(known + 1), ZkVersion(epoch.version + 1))
        operations: list[AnyOperation] = [
            *self._leads(),
            SetData(paths.CONTROLLER_EPOCH, str(claim.epoch).encode(), ZkVersion(epoch.version)),
        ]
        if controller is not None and is_ours:
            operations.append(Check(paths.CONTROLLER, ZkVersion(controller.version)))
        else:
            operations += self._taking(controller)
        if self.faults.refused(operations):
            return self._claim_failed("ZooKeeper refuses the claim")
        self._tried = claim
        try:
            self._zookeeper.transact(self.session.id, operations)
        except TransactionFailedError:
            return self._claim_failed("another daemon leads")
        return self._claimed(claim)

    def _replace(self, controller: SimZnode, epoch: SimZnode) -> Callable[[], None]:
        """Make ``/controller`` ours; the claim itself follows after the grace."""
        if controller.ephemeral_owner != self.session.id:
            unmoved = Check(paths.CONTROLLER_EPOCH, ZkVersion(epoch.version))
            operations = [*self._leads(), unmoved, *self._taking(controller)]
            try:
                self._zookeeper.transact(self.session.id, operations)
            except TransactionFailedError:
                return self._claim_failed("another daemon leads")
        session = self.session
        return lambda: session.send_in(GRACE_S, lambda: self._try_claim(at_once=False, is_due=True))

    def _taking(self, controller: SimZnode | None) -> list[AnyOperation]:
        """Return what makes ``/controller`` ours."""
        operations: list[AnyOperation] = []
        if controller is not None:
            operations.append(Delete(paths.CONTROLLER, ZkVersion(controller.version)))
        timestamp_ms = int(self._schedule.now() * 1000)
        data = encode_controller(self._controller_id, timestamp_ms)
        return [*operations, Make(paths.CONTROLLER, data, ephemeral=True)]

    def _claim_failed(self, reason: str) -> Callable[[], None]:
        """Delete a ``/controller`` of this session that belongs to no claim."""
        controller = self._zookeeper.get(paths.CONTROLLER)
        if controller is not None and controller.ephemeral_owner == self.session.id:
            delete = Delete(paths.CONTROLLER, ZkVersion(controller.version))
            self._zookeeper.transact(self.session.id, [delete])
        return lambda: self._claim_ended(lambda: self._inbox.put(ClaimFailed(reason)))

    def _claim_ended(self, report: Callable[[], None]) -> None:
        """Answer the claim, once."""
        self._claiming = False
        self.lanes.claims.put(report)

    def _claimed(self, claim: Claim) -> Callable[[], None]:
        self._watch_controller()

        session = self.session

        def report() -> None:
            if session is not self.session:
                self._inbox.put(ClaimFailed("the session ended meanwhile"))
                return
            self._claim = claim
            self._inbox.put(ControllerClaimed(claim.epoch))

        return lambda: self._claim_ended(report)

    def _watch_controller(self) -> None:
        session = self.session

        def look() -> Callable[[], None]:
            controller = self._zookeeper.get(paths.CONTROLLER)
            if controller is not None and controller.ephemeral_owner == session.id:
                self._watch_controller()
                return lambda: None
            return lambda: self.lanes.claims.put(deposed)

        def deposed() -> None:
            if session is self.session:
                self._depose("/controller is not ours any more")

        watch = session.watch("claim", lambda: session.send(look))
        self._zookeeper.exists(paths.CONTROLLER, watch)

    def begin_tenure(self) -> None:
        """Work as the leader of the daemons, without ``/controller``."""
        if self._leadership is None:
            self._inbox.put(ClaimFailed("another daemon leads"))
        else:
            self._inbox.put(ControllerClaimed(ControllerEpoch(self._leadership)))

    def resign_controller(self) -> None:
        """Give ``/controller`` back."""
        claim = self._claim
        if claim is None:
            self._inbox.put(Deposed("the controller role was not ours"))
            return

        def at_server() -> Callable[[], None]:
            controller = self._zookeeper.get(paths.CONTROLLER)
            if controller is not None and controller.ephemeral_owner == self.session.id:
                fence = Check(paths.CONTROLLER_EPOCH, claim.version)
                delete = Delete(paths.CONTROLLER, ZkVersion(controller.version))
                # A refusal means that the claim is over: the znode belongs to another session.
                with suppress(TransactionFailedError):
                    self._zookeeper.transact(self.session.id, [fence, delete])
            return lambda: self.lanes.claims.put(resigned)

        def resigned() -> None:
            self._depose("resigned", even_if_not_held=True)

        self._claim = None
        self.session.send(at_server)

    def _depose(self, reason: str, *, even_if_not_held: bool = False) -> None:
        if self._claim is not None or even_if_not_held:
            self._claim = None
            self._inbox.put(Deposed(reason))

    # --- leadership among the daemons ----------------------------------------------------------

    def compete(self) -> None:
        """Stand for the leadership among the daemons, for as long as the session lasts."""
        stand_for_leadership(self._zookeeper, self.session, self._won)

    def _won(self, version: ZkVersion) -> None:
        """Lead once our own records were read: a standby's idea of them is old."""
        for znode in OWN_RECORDS:
            self.read(znode)
        session = self.session

        def lead() -> None:
            if session is self.session:
                self._leadership = version
                self._inbox.put(LeadershipGained())

        self.session.send(lambda: lambda: self.lanes.bulk.put(lead))

    # --- the session ---------------------------------------------------------------------------

    def _open(self) -> SimSession:
        return SimSession(
            self._zookeeper,
            self._schedule,
            timeout_s=self._session_timeout_s,
            expired=self._expired,
        )

    def _expired(self) -> None:
        """Report that the session expired, then open another, as a client library does."""
        self._tried = None
        if self._claiming:
            reason = "the session ended meanwhile"
            self._claim_ended(lambda: self._inbox.put(ClaimFailed(reason)))
        self._depose("the ZooKeeper session expired", even_if_not_held=True)
        if self._leadership is not None:
            self._leadership = None
            self._inbox.put(LeadershipLost("the ZooKeeper session expired"))
        self.session = self._open()
        former = self._reads
        self._reads = SimReads(self._zookeeper, self.session, self._inbox, self.lanes)
        self._reads.take_over(former)
        if self._competes:
            self.compete()

    def close(self) -> None:
        """Disconnect cleanly: ZooKeeper deletes every ephemeral of the session at once."""
        self.session.close()

    def abandon(self) -> None:
        """Die: the server ends the session after its timeout."""
        self.session.abandon()
