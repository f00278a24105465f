"""Tests of ``controller.settings``: what is valid, and what the core gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from controller.core.core_settings import EngineName, LegacyMode, Options, TenurePolicy
from controller.core.model import MinFree
from controller.errors import InvalidInputError
from controller.setting_sources import load_settings
from controller.setting_values import (
    HttpAddress,
    NotificationKind,
    advertised_address,
    parse_address,
)
from controller.settings import (
    IN_FILES,
    Settings,
    descriptions,
    flag_of,
    is_secret,
    name_of,
    variable_of,
)

SECRET_ENDS = ("password", "credential", "token", "webhook", "slack", "query_url")


def valid(**options: object) -> Settings:
    """Return settings with these options."""
    return load_settings({"zookeeper": "zk:2181", **options}, {})


def test_only_zookeeper_has_to_be_given() -> None:
    """Everything else has the default that the design names."""
    settings = valid()
    assert settings.engine is EngineName.AUTO
    assert settings.http == HttpAddress("127.0.0.1", 8095)
    assert str(settings.journal_dir) == "journal"
    assert settings.zookeeper_session_timeout_s == 10
    assert settings.options() == Options(engine=EngineName.AUTO, min_free=MinFree(share=0.02))


def test_options_of_the_core_follow_the_settings() -> None:
    """What the core decides by is what was set."""
    options = valid(
        step_size="all", tenure="permanent", tenure_linger_s="5", legacy_mode="mirror"
    ).options()
    assert options.step_size is None
    assert options.tenure is TenurePolicy.PERMANENT
    assert options.tenure_linger_s == 5
    assert options.legacy_mode is LegacyMode.MIRROR


def test_settings_cannot_be_changed() -> None:
    """A setting is validated once and then stays."""
    settings = valid()
    with pytest.raises(ValidationError, match="frozen"):
        settings.step_size = 2  # type: ignore[misc] # it is what must fail


@pytest.mark.parametrize(
    "text",
    ["zk", "zk:2181", "a:1,b:2,c:3/kafka", "10.0.0.1:2181/a/b", "[::1]:2181", "zk:2181/"],
)
def test_connect_strings_of_kafka_are_taken(text: str) -> None:
    """Whatever brokers take as zookeeper.connect is taken here."""
    assert valid(zookeeper=text).zookeeper == text.rstrip("/")


@pytest.mark.parametrize(
    "text",
    ["", "a b:1", "zk:0", "zk:65536", "zk:x", ",", "zk:1,", "zk:1/a//b", "zk:1/a b", "/kafka"],
)
def test_wrong_connect_strings_are_refused(text: str) -> None:
    """A typing error is found before anything connects."""
    with pytest.raises(InvalidInputError, match="--zookeeper"):
        valid(zookeeper=text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8095", HttpAddress("127.0.0.1", 8095)),
        ("0.0.0.0:0", HttpAddress("0.0.0.0", 0)),  # noqa: S104 - a value, nothing listens
        ("[::1]:80", HttpAddress("::1", 80)),
        ("host.example:65535", HttpAddress("host.example", 65535)),
    ],
)
def test_http_addresses_are_parsed(text: str, address: HttpAddress) -> None:
    """Host and port come apart, and together again."""
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("given", "bound", "published"),
    [
        (None, "127.0.0.1:8095", "127.0.0.1:8095"),
        (None, "0.0.0.0:8095", "box-1:8095"),
        (None, "[::]:8095", "box-1:8095"),
        ("10.0.0.7", "0.0.0.0:8095", "10.0.0.7:8095"),
        ("fd00::7", "[::]:8095", "[fd00::7]:8095"),
        ("[fd00::7]:80", "[::]:8095", "[fd00::7]:80"),
        ("reassigner.example:443", "127.0.0.1:8095", "reassigner.example:443"),
    ],
)
def test_the_published_address_leads_to_the_server(
    given: str | None, bound: str, published: str
) -> None:
    """What is set, with the port listened on where it has none; else what others can reach."""
    settings = valid() if given is None else valid(http_advertise=given)
    found = advertised_address(settings.http_advertise, parse_address(bound), "box-1")
    assert str(found) == published


@pytest.mark.parametrize(
    "text", ["", "0.0.0.0:80", "[::]:80", "::", "a b", "host:", "h:65536", "h:x"]
)
def test_an_address_that_leads_nowhere_is_not_published(text: str) -> None:
    """It would lead a client that looks for the leader to itself."""
    with pytest.raises(InvalidInputError, match="--http-advertise"):
        valid(http_advertise=text)


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":80", "host:-1", "h:65536", "::1:80", "h:²"]
)
def test_wrong_http_addresses_are_refused(text: str) -> None:
    """Anything but HOST:PORT is refused."""
    with pytest.raises(InvalidInputError, match="--http"):
        valid(http=text)


@pytest.mark.parametrize("value", ["1", 1, "17", " 2 "])
def test_step_sizes_are_whole_numbers(value: object) -> None:
    """A step adds one replica or more."""
    assert valid(step_size=value).options().step_size == int(str(value))


@pytest.mark.parametrize("value", ["0", 0, -1, "1.5", 1.5, "many", "", [1]])
def test_wrong_step_sizes_are_refused(value: object) -> None:
    """A step of nothing would never end."""
    with pytest.raises(InvalidInputError, match="--step-size"):
        valid(step_size=value)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"zookeeper_auth_scheme": "digest"}, "--zookeeper-auth-scheme"),
        ({"zookeeper_sasl_mechanism": "DIGEST-MD5"}, "--zookeeper-sasl-mechanism"),
        ({"security_protocol": "SASL_SSL"}, "--security-protocol"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "--sasl-mechanism"),
    ],
)
def test_settings_that_need_others_say_so(options: dict[str, object], named: str) -> None:
    """Half a security setting is refused at the start, not at the first connection."""
    with pytest.raises(InvalidInputError, match=named):
        valid(**options)


def test_secrets_are_not_shown() -> None:
    """Neither text nor representation of the settings gives a secret away."""
    settings = load_settings(
        {"zookeeper": "zk:1", "zookeeper_auth_scheme": "digest"},
        {"REASSIGNER_ZOOKEEPER_AUTH_CREDENTIAL": "user:hunter2"},
    )
    assert "hunter2" not in repr(settings) + str(settings) + settings.model_dump_json()
    assert settings.zookeeper_auth_credential is not None
    assert settings.zookeeper_auth_credential.get_secret_value() == "user:hunter2"


@pytest.mark.parametrize("name", IN_FILES)
def test_a_secret_is_given_once_itself_or_in_a_file(name: str) -> None:
    """The file counts as the secret; both would leave open which one is used."""
    options = {"zookeeper": "zk:1", "zookeeper_auth_scheme": "digest"}
    digest = {"REASSIGNER_ZOOKEEPER_AUTH_CREDENTIAL": "u:p"}
    variable = variable_of(name)
    environ = {} if name == "zookeeper_auth_credential" else digest
    settings = load_settings({**options, f"{name}_file": "/etc/secret"}, environ)
    password = settings.password(name)
    assert password is not None
    assert password.file == Path("/etc/secret")
    with pytest.raises(InvalidInputError, match=f"cannot be given together with {name}"):
        load_settings({**options, f"{name}_file": "/etc/secret"}, {**digest, variable: "hunter2"})


def test_names_leave_the_unit_out() -> None:
    """The unit belongs to the code; people write the name of the design."""
    assert name_of("tenure_linger_s") == "tenure_linger"
    assert flag_of("tenure_linger_s") == "--tenure-linger"
    assert variable_of("tenure_linger_s") == "REASSIGNER_TENURE_LINGER"


def test_every_password_is_a_secret() -> None:
    """No setting that holds a password or credential is shown or given as an option."""
    for name, about in Settings.model_fields.items():
        assert is_secret(about) == name.endswith(SECRET_ENDS)


def test_every_setting_is_described() -> None:
    """There is no setting without a sentence about it."""
    found = descriptions()
    assert found.keys() == Settings.model_fields.keys()
    assert all(text.endswith(".") for text in found.values()), found


def test_token_that_could_be_guessed_is_refused() -> None:
    """The message names the setting, and not what was given."""
    with pytest.raises(InvalidInputError) as caught:
        load_settings({"zookeeper": "zk:2181"}, environ={"REASSIGNER_HTTP_TOKEN": "sesame"})
    assert str(caught.value) == "REASSIGNER_HTTP_TOKEN: must have at least 16 characters"


@pytest.mark.parametrize(
    "value", ["hook.internal", "ftp://hook.internal/x", "http:///x", "http:// x"]
)
def test_address_of_a_webhook_must_be_one(value: str) -> None:
    """It may hold a secret: it is not repeated."""
    with pytest.raises(InvalidInputError) as caught:
        load_settings({"zookeeper": "zk:2181"}, environ={"REASSIGNER_NOTIFY_WEBHOOK": value})
    assert value not in str(caught.value)
    assert "REASSIGNER_NOTIFY_WEBHOOK: must be an address such as" in str(caught.value)


def test_occasions_of_notifications_are_known_ones() -> None:
    """All by default."""
    assert load_settings({"zookeeper": "zk"}, environ={}).notify_on == ",".join(NotificationKind)
    load_settings({"zookeeper": "zk", "notify_on": "ended, stalled"}, environ={})
    with pytest.raises(InvalidInputError, match="--notify-on: must be a list of started, ended"):
        load_settings({"zookeeper": "zk", "notify_on": "ended,breakfast"}, environ={})


def test_the_limit_of_requests_follows_zookeepers() -> None:
    """By default a million bytes, as ever; never less than ZooKeeper's own default."""
    assert valid().request_bytes == valid().options().request_bytes == 1_000_000
    raised = valid(zookeeper_jute_maxbuffer=4 << 20)
    assert 4 << 20 > raised.request_bytes == raised.options().request_bytes > 4_000_000
    for wrong in (0, 1_000_000, 1 << 31):
        with pytest.raises(InvalidInputError, match="--zookeeper-jute-maxbuffer"):
            valid(zookeeper_jute_maxbuffer=wrong)


def test_more_names_of_the_http_server_are_a_list() -> None:
    """In lower case, as they are compared; ports and addresses of the web are no names."""
    assert valid(http_hosts="Moves.Example.com, a.b").http_hosts == "moves.example.com,a.b"
    assert valid(http_hosts="*").http_hosts == "*"
    for wrong in ("a:80", "http://a", "a,,b", "a b", "*.example.com"):
        with pytest.raises(InvalidInputError, match="--http-hosts"):
            valid(http_hosts=wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10GB", MinFree(bytes=10**10)),
        ("2.5%", MinFree(share=0.025)),
        ("0", MinFree()),
        ("none", None),
    ],
)
def test_min_free_is_bytes_a_percentage_or_none(text: str, expected: MinFree | None) -> None:
    """None turns the guard off; 0 only keeps disks from being full."""
    assert valid(min_free=text).options().min_free == expected


@pytest.mark.parametrize("text", ["much", "100%", "-1", "-1%", "1e3"])
def test_min_free_of_another_form_is_refused(text: str) -> None:
    """A volume of which everything stays free takes no copy."""
    with pytest.raises(InvalidInputError, match="min-free"):
        valid(min_free=text)


ENDPOINT = {"controller_endpoint": "private", "endpoint_listen": "0.0.0.0:9095"}
PUBLIC = {**ENDPOINT, "controller_endpoint": "public"}
SASL = {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "p"}


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"controller_endpoint": "private"}, "endpoint_listen"),
        ({**ENDPOINT, "security_protocol": "SSL"}, "endpoint_certfile and endpoint_keyfile"),
        ({**ENDPOINT, "security_protocol": "SASL_PLAINTEXT", **SASL}, "endpoint_users"),
        (
            {
                **ENDPOINT,
                "security_protocol": "SSL",
                "endpoint_certfile": "c",
                "endpoint_keyfile": "k",
                "endpoint_cafile": "ca",
            },
            "endpoint_principals",
        ),
        ({**ENDPOINT, "endpoint_principals": "User:kafka"}, "SASL, or SSL with endpoint_cafile"),
        ({**PUBLIC, "endpoint_users": "users"}, "no effect with public"),
        ({**PUBLIC, "endpoint_principals": "User:kafka"}, "no effect with public"),
        ({**ENDPOINT, "endpoint_sasl_mechanisms": "PLAIN,GSSAPI"}, "a list of PLAIN, SCRAM"),
    ],
)
def test_an_endpoint_needs_what_its_listener_requires(
    options: dict[str, object], missing: str
) -> None:
    """An endpoint that brokers cannot use, or that anybody can, is refused at the start."""
    with pytest.raises(InvalidInputError, match=missing):
        valid(**options)
    valid(**ENDPOINT)
    valid(**{**options, "controller_endpoint": "off", "endpoint_sasl_mechanisms": "PLAIN"})


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"governor_query": "x"}, "needs governor_query_url and governor_query_objective"),
        (
            {"governor_query_url": "http://p:9090", "governor_query_objective": 0.5},
            "--governor-query-url: needs governor_query",
        ),
        ({"governor_query_url": "ftp://p"}, "must be an address"),
        ({"governor_query_objective": 0.0}, "must be more than 0"),
    ],
)
def test_a_query_of_the_governor_has_a_server_and_an_objective(
    given: dict[str, object], wrong: str
) -> None:
    """None of the three says anything without the others."""
    with pytest.raises(InvalidInputError, match=wrong):
        valid(**given)
