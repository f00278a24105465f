"""
The names that the explorer takes from the production code and from the simulator: all of them.

Where a name of the core moves, this module is the one to change.
"""

from __future__ import annotations

from controller import kafka_errors as kafka_errors
from controller.core.calls.broker_requests import (
    AlterPartition as AlterPartition,
)
from controller.core.calls.broker_requests import (
    AlterPartitionAnswer as AlterPartitionAnswer,
)
from controller.core.calls.broker_requests import (
    IsrChange as IsrChange,
)
from controller.core.calls.broker_requests import (
    IsrResult as IsrResult,
)
from controller.core.calls.broker_requests import (
    Permission as Permission,
)
from controller.core.calls.records import BrokerRequestReceived as BrokerRequestReceived
from controller.core.cluster.model import (
    Endpoint as Endpoint,
)
from controller.core.cluster.model import (
    LiveBroker as LiveBroker,
)
from controller.core.core_settings import EngineName as EngineName
from controller.core.core_settings import Options as Options
from controller.core.deletions.records import TopicTreesRead as TopicTreesRead
from controller.core.leadership.records import (
    LeaderAndIsrAnswered as LeaderAndIsrAnswered,
)
from controller.core.leadership.records import (
    LeaderAndIsrResult as LeaderAndIsrResult,
)
from controller.core.leadership.records import (
    StateChanged as StateChanged,
)
from controller.core.leadership.records import (
    StatesRead as StatesRead,
)
from controller.core.model import AlterOutcome as AlterOutcome
from controller.core.model import (
    BrokerEpoch as BrokerEpoch,
)
from controller.core.model import (
    BrokerId as BrokerId,
)
from controller.core.model import (
    ControllerEpoch as ControllerEpoch,
)
from controller.core.model import (
    Instant as Instant,
)
from controller.core.model import (
    LeaderEpoch as LeaderEpoch,
)
from controller.core.model import (
    PartitionAssignment as PartitionAssignment,
)
from controller.core.model import (
    PartitionState as PartitionState,
)
from controller.core.model import RequestId as RequestId
from controller.core.model import (
    TopicAssignment as TopicAssignment,
)
from controller.core.model import (
    TopicConfig as TopicConfig,
)
from controller.core.model import (
    TopicPartition as TopicPartition,
)
from controller.core.model import (
    ZkVersion as ZkVersion,
)
from controller.core.model import (
    Zxid as Zxid,
)
from controller.core.pacing.controls import PAUSES as PAUSES
from controller.core.pacing.controls import Drain as Drain
from controller.core.pacing.controls import Drains as Drains
from controller.core.pacing.controls import Pause as Pause
from controller.core.pacing.controls import Pauses as Pauses
from controller.core.pacing.limits_in_force import throttle_of as throttle_of
from controller.core.pacing.records import WallClockRead as WallClockRead
from controller.core.pacing.throttle_settings import FOLLOWER_RATE as FOLLOWER_RATE
from controller.core.pacing.throttle_settings import FOLLOWER_REPLICAS as FOLLOWER_REPLICAS
from controller.core.pacing.throttle_settings import LEADER_RATE as LEADER_RATE
from controller.core.pacing.throttle_settings import LEADER_REPLICAS as LEADER_REPLICAS
from controller.core.pacing.throttle_settings import Entity as Entity
from controller.core.pacing.throttle_settings import EntityConfig as EntityConfig
from controller.core.reassignments.records import AlterResult as AlterResult
from controller.core.reassignments.records import ReassignmentsAltered as ReassignmentsAltered
from controller.core.reassignments.records import (
    StopReplicaAnswered as StopReplicaAnswered,
)
from controller.core.reassignments.records import (
    StopReplicaResult as StopReplicaResult,
)
from controller.core.records import Event as Event
from controller.core.requests.records import CancellationRead as CancellationRead
from controller.core.requests.submissions import (
    Cancellation as Cancellation,
)
from controller.core.requests.submissions import (
    RequestOptions as RequestOptions,
)
from controller.core.role.records import BrokerSettingsRead as BrokerSettingsRead
from controller.core.role.records import (
    ClaimFailed as ClaimFailed,
)
from controller.core.role.records import (
    ControllerClaimed as ControllerClaimed,
)
from controller.core.role.records import (
    Deposed as Deposed,
)
from controller.core.role.records import (
    LeadershipGained as LeadershipGained,
)
from controller.core.role.records import (
    LeadershipLost as LeadershipLost,
)
from controller.core.role.records import ReassignmentsProbed as ReassignmentsProbed
from controller.core.role.records import (
    UpdateMetadataAnswered as UpdateMetadataAnswered,
)
from controller.core.topics.records import (
    TopicConfigsRead as TopicConfigsRead,
)
from controller.core.topics.records import (
    TopicsRead as TopicsRead,
)
from controller.core.view import ClusterView as ClusterView
from controller.errors import (
    CommitUnknownError as CommitUnknownError,
)
from controller.errors import (
    ControllerMovedError as ControllerMovedError,
)
from controller.errors import (
    InvariantError as InvariantError,
)
from controller.errors import (
    SessionLostError as SessionLostError,
)
from controller.reactor.commits import RETRY_TIMER as RETRY_TIMER
from controller.reactor.loop import Reactor as Reactor
from controller.reactor.outbox import METADATA_EVERY_S as METADATA_EVERY_S
from controller.reactor.ports import (
    Check as Check,
)
from controller.reactor.ports import (
    Committed as Committed,
)
from controller.reactor.ports import (
    Create as Create,
)
from controller.reactor.ports import (
    CreateSequential as CreateSequential,
)
from controller.reactor.ports import (
    Delete as Delete,
)
from controller.reactor.ports import (
    Failpoints as Failpoints,
)
from controller.reactor.ports import (
    LeaderAndIsr as LeaderAndIsr,
)
from controller.reactor.ports import (
    LeaderAndIsrState as LeaderAndIsrState,
)
from controller.reactor.ports import (
    Rejected as Rejected,
)
from controller.reactor.ports import (
    SetData as SetData,
)
from controller.reactor.ports import (
    StopReplica as StopReplica,
)
from controller.reactor.ports import (
    StopReplicaState as StopReplicaState,
)
from controller.reactor.ports import (
    UpdateMetadata as UpdateMetadata,
)
from controller.reactor.ports import (
    WriteError as WriteError,
)
from controller.reactor.ports import (
    ZnodeFamily as ZnodeFamily,
)
from controller.reactor.reads import CANCELLABLE as CANCELLABLE
from controller.reactor.reads import OWN_RECORDS as OWN_RECORDS
from controller.reactor.znode_operations import is_paperwork as is_paperwork
from controller.zk.multis import too_large as too_large
from controller.znodes import paths as paths
from controller.znodes.brokers_and_controller import (
    decode_controller_epoch as decode_controller_epoch,
)
from controller.znodes.brokers_and_controller import (
    encode_controller as encode_controller,
)
from controller.znodes.cancellations import encode_cancellation as encode_cancellation
from controller.znodes.entity_configs import decode_entity_config as decode_entity_config
from controller.znodes.entity_configs import encode_entity_config as encode_entity_config
from controller.znodes.operator_controls import encode_drains as encode_drains
from controller.znodes.operator_controls import encode_pauses as encode_pauses
from controller.znodes.operator_controls import encode_throttle as encode_throttle
from controller.znodes.plans import encode_legacy_plan as encode_legacy_plan
from controller.znodes.plans import encode_submission as encode_submission
from controller.znodes.topics import decode_state as decode_state
from controller.znodes.topics import encode_state as encode_state
from controller.znodes.topics import encode_topic as encode_topic
from tests.sim.alter_api import error_of as error_of
from tests.sim.controller_endpoints import KafkaEndpoint as KafkaEndpoint
from tests.sim.decoded import read_state as read_state
from tests.sim.decoded import read_topic as read_topic
from tests.sim.histories import SilentObserver as SilentObserver
from tests.sim.kafka_cluster import ControllerMoved as ControllerMoved
from tests.sim.kafka_cluster import KafkaCluster as KafkaCluster
from tests.sim.kafka_duties import KafkaDuties as KafkaDuties
from tests.sim.kafka_reassignments import KafkaReassignments as KafkaReassignments
from tests.sim.reads import SimReads as SimReads
from tests.sim.schedule import Schedule as Schedule
from tests.sim.zookeeper import (
    ANY_VERSION as ANY_VERSION,
)
from tests.sim.zookeeper import (
    NO_SESSION as NO_SESSION,
)
from tests.sim.zookeeper import (
    AnyOperation as AnyOperation,
)
from tests.sim.zookeeper import (
    Make as Make,
)
from tests.sim.zookeeper import (
    Put as Put,
)
from tests.sim.zookeeper import (
    SessionExpiredError as SessionExpiredError,
)
from tests.sim.zookeeper import (
    TransactionFailedError as TransactionFailedError,
)
