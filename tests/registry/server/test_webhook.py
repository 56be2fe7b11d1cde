from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.webhooks.delivery import _generate_hmac_signature
from mlflow.webhooks.types import ModelVersionAliasCreatedPayload, ModelVersionCreatedPayload

from ens_plugin.registry.server import DeliveryLog, WebhookRefusal, check_delivery, signature, version_of
from ens_plugin.tracking.models import VersionAddress

SECRET, NOW, BODY = "a-secret-of-the-webhook", 1_700_000_000, b'{"entity": "model_version"}'


def headers(
    timestamp: object = NOW, delivery_id: str = "d-1", secret: str = SECRET, body: bytes = BODY
) -> dict[str, str]:
    return {
        "x-mlflow-delivery-id": delivery_id,
        "x-mlflow-timestamp": str(timestamp),
        "x-mlflow-signature": signature(secret, delivery_id, str(timestamp), body),
    }


def refusal(given: dict[str, str], body: bytes = BODY, now: float = NOW, log: DeliveryLog | None = None) -> int:
    with pytest.raises(WebhookRefusal) as refused:
        check_delivery(given, body, SECRET, now, log or DeliveryLog())
    return refused.value.status


@given(secret=st.text(), delivery_id=st.text(), timestamp=st.text(), body=st.text())
def test_signatures_are_mlflows(secret: str, delivery_id: str, timestamp: str, body: str) -> None:
    ours = signature(secret, delivery_id, timestamp, body.encode())
    assert ours == _generate_hmac_signature(secret, delivery_id, timestamp, body)


@pytest.mark.parametrize("age", [0, 0.9, 150, 300, -1, -2, -300])
def test_a_delivery_of_these_minutes_is_taken_also_where_its_clock_is_ahead(age: float) -> None:
    assert check_delivery(headers(), BODY, SECRET, NOW + age, DeliveryLog()) == "d-1"


@pytest.mark.parametrize("age", [301, 10**6, -301, -(10**6)])
def test_stale_ones_and_ones_from_the_future_are_refused(age: float) -> None:
    assert refusal(headers(), now=NOW + age) == 401


@pytest.mark.parametrize("name", ["x-mlflow-delivery-id", "x-mlflow-timestamp", "x-mlflow-signature"])
@pytest.mark.parametrize(
    "value", [None, "", "v1,", "v1,AAAA", "\u00e9", "1e9", "-5", " 1700000000", "9" * 30, "x" * 201]
)
def test_unsigned_and_wrongly_signed_ones_are_refused(name: str, value: str | None) -> None:
    given = headers()
    del given[name]
    assert refusal(given if value is None else {**given, name: value}) == 401


def test_every_part_is_signed() -> None:
    assert refusal(headers(secret="another")) == 401
    assert refusal(headers(), body=BODY + b" ") == 401
    assert refusal({**headers(), "x-mlflow-delivery-id": "d-2"}) == 401
    assert refusal({**headers(NOW - 200), "x-mlflow-timestamp": str(NOW)}) == 401
    assert refusal({**headers(), "x-mlflow-signature": headers()["x-mlflow-signature"].replace("v1", "v2")}) == 401


def test_a_timestamp_that_is_signed_and_no_number_is_refused() -> None:
    for timestamp in ("soon", "", "\u0661\u0662", "\u00b2", "-1", "1.5"):
        assert refusal(headers(timestamp)) == 401


def test_a_replay_is_refused_for_as_long_as_it_is_fresh() -> None:
    log = DeliveryLog()
    log.add(check_delivery(headers(), BODY, SECRET, NOW, log), NOW)
    assert {refusal(headers(), now=NOW + age, log=log) for age in (0, 1, 299, 300)} == {409}
    assert refusal(headers(), now=NOW + 301, log=log) == 401
    assert check_delivery(headers(delivery_id="d-2"), BODY, SECRET, NOW, log) == "d-2"


def test_a_replay_of_one_from_the_future_is_refused_for_as_long_as_it_counts() -> None:
    log, ahead = DeliveryLog(), headers(NOW + 300)
    check_delivery(ahead, BODY, SECRET, NOW, log)
    log.add("d-1", NOW + 300)
    assert {refusal(ahead, now=NOW + age, log=log) for age in (0, 301, 302, 599, 600)} == {409}
    assert refusal(ahead, now=NOW + 601, log=log) == 401


def test_old_deliveries_are_forgotten() -> None:
    log = DeliveryLog()
    for number in range(100):
        log.add(str(number), NOW)
    assert not log.knows("x", NOW + 302)
    assert not log.knows("5", NOW + 302)
    assert log._taken == {}


def event(kind: str, data: Any) -> bytes:
    entity, action = kind.split(".")
    return json.dumps({"entity": entity, "action": action, "timestamp": "2026-01-02", "data": data}).encode()


def test_events_that_ask_for_a_judgement() -> None:
    created = event("model_version.created", ModelVersionCreatedPayload.example())
    assert version_of(created, None) == VersionAddress("example_model", "1", None)
    aliased = ModelVersionAliasCreatedPayload.example()
    body = event("model_version_alias.created", aliased)
    assert version_of(body, aliased["alias"]) == VersionAddress(aliased["name"], aliased["version"], None)
    assert version_of(body, None) is None
    assert version_of(body, "champion") is None


@pytest.mark.parametrize("kind", ["registered_model.created", "model_version_tag.set", "model_version_alias.deleted"])
def test_events_that_do_not(kind: str) -> None:
    assert version_of(event(kind, {"name": "a", "version": "1", "alias": "b", "key": "ens.gate"}), "b") is None


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{}", b"\xff", b"[" * 20_000, event("model_version.created", None),
     event("model_version.created", {"name": "churn"}), event("model_version.created", {"name": "a/b", "version": "1"}),
     event("model_version.created", {"name": "churn", "version": "1/../2"}),
     event("model_version.created", {"name": "churn", "version": "latest"}),
     event("model_version_alias.created", {"name": "churn", "version": "1"})],
)  # fmt: skip
def test_what_is_no_event_is_refused(body: bytes) -> None:
    with pytest.raises(WebhookRefusal) as refused:
        version_of(body, "champion")
    assert refused.value.status == 400
