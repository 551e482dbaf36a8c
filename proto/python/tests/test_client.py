"""The client against a real gateway."""

import asyncio
import datetime
import os
import socket
import threading
import time
import uuid
from pathlib import Path

import pytest

import triskele
from triskele import AsyncClient, Client
from triskele.v1 import leg_pb2, recall_pb2


def contents(memories):
    return [m.content for m in memories]


def test_what_is_stored_is_recalled(client, namespace):
    when = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.timezone.utc)
    stored = client.remember(
        namespace, "Deploys are frozen from Thursday noon.", tags=["release"], metadata={"team": "ops", "n": 3}, occurred_at=when
    )
    client.remember(namespace, "The staging password is rotated on Mondays.")
    answer = client.recall(
        namespace, "are deploys frozen on Friday?", limit=1, at_least=[stored.revision_token], legs={"graph": {"weight": 0.5}}
    )
    assert contents(hit.memory for hit in answer.hits) == ["Deploys are frozen from Thursday noon."]
    assert answer.hits[0].memory.occurred_at.ToDatetime(datetime.timezone.utc) == when
    found = client.recall(namespace, "deploys", filter={"metadata": {"team": "ops"}, "tags_any": ["release"]}).hits
    assert [hit.id for hit in found] == [stored.memory.id]
    assert not client.recall(namespace, "deploys", filter={"metadata": {"team": "sales"}}).hits


def test_a_memory_is_changed_replaced_and_forgotten(client, namespace):
    old = client.remember(namespace, "Tea is at four.", category="habit").memory
    changed = client.update(namespace, old.id, title="Tea", tags=["daily"], expected_revision=1).memory
    assert (changed.revision, changed.title, list(changed.tags), changed.category) == (2, "Tea", ["daily"], "habit")
    with pytest.raises(triskele.Aborted):
        client.update(namespace, old.id, title="Coffee", expected_revision=1)
    new = client.supersede(namespace, old.id, "Tea is at five.")
    assert (new.memory.supersedes, new.superseded.superseded_by) == (old.id, new.memory.id)
    assert contents(hit.memory for hit in client.recall(namespace, "when is tea").hits) == ["Tea is at five."]
    assert client.forget(namespace, [old.id, new.memory.id]) == 2
    assert list(client.get(namespace, old.id)) == []


def test_an_import_comes_back_and_can_be_repeated(client, namespace):
    memories = [{"id": str(uuid.uuid4()), "namespace": namespace, "content": f"Fact {n}"} for n in range(450)]
    first = client.import_(memories, return_ids=True, timeout=60)
    assert (first.stored, first.unchanged, list(first.ids)) == (450, 0, [m["id"] for m in memories])
    again = client.import_(memories, timeout=60)
    assert (again.stored, again.unchanged) == (0, 450)
    assert sorted(contents(client.export(namespace))) == sorted(m["content"] for m in memories)
    assert len(list(client.list(namespace, page_size=200))) == 450
    client.wait_indexed(namespace)
    assert client.namespace(namespace, statistics=True).statistics.live == 450
    assert namespace in [n.namespace for n in client.namespaces("python/")]
    assert client.rename_namespace(namespace, f"{namespace}-new") == 450
    assert client.delete_namespace(f"{namespace}-new") == 450
    with pytest.raises(triskele.NotFound):
        client.namespace(namespace)


def test_an_error_names_field_and_bound(client, namespace):
    with pytest.raises(triskele.InvalidArgument) as caught:
        client.recall(namespace, "tea", limit=5000)
    assert (caught.value.field, "1000" in caught.value.bound) == ("limit", True), caught.value
    with pytest.raises(triskele.InvalidArgument) as caught:
        client.remember("No Such Name", "tea")
    assert caught.value.field == "memory.namespace"
    with pytest.raises(triskele.InvalidArgument) as caught:
        list(client.export("No Such Name"))
    assert caught.value.field == "namespace"
    with pytest.raises(triskele.InvalidArgument) as caught:
        client.recall(namespace, "tea", filter={"metadata": {"a": None}})
    assert caught.value.field.startswith("filter.metadata"), caught.value
    with pytest.raises(triskele.InvalidArgument):
        client.import_([{"namespace": namespace, "content": "tea", "position": 1}])
    many = [{"namespace": namespace, "content": "tea", "importance": 7 if n in (440, 441) else 0.5} for n in range(450)]
    with pytest.raises(triskele.InvalidArgument, match=r"memories\[440].importance.* \(and 1 more\)") as caught:
        client.import_(many)
    assert [v.field for v in caught.value.violations] == ["memories[440].importance", "memories[441].importance"]


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("memory.content", {"content": b"\xff\xfe"}),
        ("memory.content", {"content": "broken \ud800"}),
        ("memory.content", {"content": "zero \0"}),
        ("memory.content", {"content": "x" * 65537}),
        ("memory.title", {"content": "x", "title": "é" * 257}),
        ("memory.tags[1]", {"content": "x", "tags": ["a", "b" * 129]}),
        ("memory.metadata.a", {"content": "x", "metadata": {"a": b"\0"}}),
        ("memory", {"content": "x", "metadata": {"a": "y" * (1 << 20)}}),
    ],
)
def test_what_is_binary_or_huge_is_not_sent(server, field, fields):
    fake, address = server
    with Client(address) as client:
        with pytest.raises(triskele.InvalidArgument) as caught:
            client.remember("n", **fields)
        assert caught.value.field == field
        with pytest.raises(triskele.InvalidArgument) as caught:
            client.import_([{"namespace": "n", **fields}])
        assert caught.value.field == field.replace("memory", "memories[0]")
        with pytest.raises(triskele.InvalidArgument, match="query"):
            client.recall("n", "q" * 32769)
    assert fake.calls == []


def test_an_unknown_field_is_a_mistake_of_the_program(client, namespace):
    with pytest.raises(TypeError, match="memory.colour"):
        client.remember(namespace, "tea", colour="green")
    with pytest.raises(TypeError, match="a list"):
        client.remember(namespace, "tea", tags="release")
    for kind, field, fields in [
        (TypeError, "tags", {"tags": [5]}),
        (TypeError, "importance", {"importance": "high"}),
        (ValueError, "position", {"position": 2**70}),
        (OverflowError, "metadata", {"metadata": {"a": 10**400}}),
        (AttributeError, "metadata", {"metadata": [1]}),
        (TypeError, r"links\[1].target", {"links": [{}, {"target": 5}]}),
    ]:
        with pytest.raises(kind, match=f"^memory.{field}: "):
            client.remember(namespace, "tea", **fields)
        with pytest.raises(kind, match=rf"^memories\[0].{field}: "):
            client.import_([{"namespace": namespace, "content": "tea", **fields}])


def test_reads_are_tried_again_and_writes_are_not(server):
    fake, address = server
    with Client(address) as client:
        fake.failures = 2
        client.recall("n", "tea")
        assert [name for name, _, _ in fake.calls] == ["Recall"] * 3
        fake.calls.clear()
        fake.failures = 1
        with pytest.raises(triskele.Unavailable):
            client.remember("n", "tea")
        assert len(fake.calls) == 1


def test_every_call_has_a_deadline(server):
    fake, address = server
    with Client(address, timeout=3600) as client:
        client.recall("n", "tea")
        client.recall("n", "tea", timeout=7200)
    got = [left for _, _, left in fake.calls]
    assert 3500 < got[0] < 3700 and 7100 < got[1] < 7300  # gRPC rounds


def test_a_status_that_fails_or_hangs_once_does_not_end_the_wait_for_the_indexes(server):
    fake, address = server
    leg, status = recall_pb2.LegIndexStatus, leg_pb2.GetIndexStatusResponse
    answers = [[leg(leg="dense", error="away")], [leg(leg="dense", status=status(pending=1))], [leg(leg="dense", status=status())]]

    def prepare():
        fake.indexes = [recall_pb2.RecallServiceGetIndexStatusResponse(legs=legs) for legs in answers]
        waits = iter([0.5])
        fake.hold = lambda: time.sleep(next(waits, 0))
        fake.failures = 3  # more than a call tries

    def fail():
        fake.indexes = [recall_pb2.RecallServiceGetIndexStatusResponse(legs=answers[0])]
        waits = iter([0])
        fake.hold = lambda: time.sleep(next(waits, 4))  # all calls but the first get no answer
        return pytest.raises(triskele.Unavailable, match="dense leg cannot be asked: away")

    async def use() -> None:
        async with AsyncClient(address, timeout=0.2) as client:
            await client.wait_indexed("n")
            assert len(fake.indexes) == 1
        async with AsyncClient(address, timeout=2) as client:
            with fail():
                await client.wait_indexed("n", timeout=2.5)

    prepare()
    with Client(address, timeout=0.2) as client:
        client.wait_indexed("n")
    with Client(address, timeout=2) as client, fail():
        client.wait_indexed("n", timeout=2.5)
    prepare()
    asyncio.run(use())


def test_a_gateway_that_does_not_answer_is_an_error_in_time(server):
    fake, address = server
    released = threading.Event()
    fake.hold = released.wait
    start = time.monotonic()
    with Client(address) as client, pytest.raises(triskele.DeadlineExceeded):
        client.recall("n", "tea", timeout=0.2)
    released.set()
    assert time.monotonic() - start < 5


def test_a_gateway_that_is_away_is_an_error_in_time():
    with socket.socket() as taken:  # nothing listens on it
        taken.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{taken.getsockname()[1]}"
        start = time.monotonic()
        with Client(target) as client:
            with pytest.raises(triskele.Unavailable):
                client.remember("n", "tea", timeout=2)
            with pytest.raises((triskele.Unavailable, triskele.DeadlineExceeded)):
                client.recall("n", "tea", timeout=2)
            with pytest.raises((triskele.Unavailable, triskele.DeadlineExceeded)):
                list(client.export("n", timeout=2))
        assert time.monotonic() - start < 8


def test_a_token_goes_to_no_other_machine_in_plain_text(server):
    fake, address = server
    with Client(address, token="secret\n") as client:  # as a file has it
        client.recall("n", "tea")
    assert fake.calls[0][1]["authorization"] == "Bearer secret"
    for target in ["memory.example.com:7400", "dns:///10.0.0.1:7400", "localhost.example.com:1", "dns://10.0.0.1/localhost:7400"]:
        with pytest.raises(ValueError, match="only with TLS") as caught:
            Client(target, token="secret")
        assert "secret" not in str(caught.value)
    for target in ["localhost:7400", "dns:///127.0.0.1:7400", "[::1]:7400", "unix:///run/x"]:
        Client(target, token="secret").close()


def test_tls_and_tokens(namespace):
    secure = Path(os.environ["TRISKELE_SECURE"])  # a folder with what a gateway with TLS and tokens needs
    address, token, ca = ((secure / name).read_text().strip() for name in ("address", "token", "gateway.pem"))
    mine = f"acme/{namespace}"
    with Client(address, token=token, tls=ca.encode()) as client:
        client.remember(mine, "Invoices are sent on the second working day.")
        assert len(client.recall(mine, "when are invoices sent").hits) == 1
        with pytest.raises(triskele.PermissionDenied):
            client.recall("other", "tea")
    with Client(address, tls=ca.encode()) as client, pytest.raises(triskele.Unauthenticated):
        client.recall(mine, "tea")
    with Client(address, token=token, tls=True) as client, pytest.raises(triskele.Unavailable):
        client.remember(mine, "nobody vouches for this gateway")


def test_a_trace_is_continued(server):
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    fake, address = server
    with trace.TracerProvider().get_tracer("test").start_as_current_span("question") as span, Client(address) as client:
        client.recall("n", "tea")
    assert f"{span.get_span_context().trace_id:032x}" in fake.calls[0][1]["traceparent"]


def test_async(address, namespace, server):
    fake, away = server

    async def use() -> None:
        async with AsyncClient(address) as client:
            stored = await client.remember(namespace, "Tea is at four.")
            await client.import_([{"namespace": namespace, "content": f"Fact {n}"} for n in range(250)])
            answer = await client.recall(namespace, "when is tea", at_least=[stored.revision_token])
            assert answer.hits[0].memory.content == "Tea is at four."
            assert len([m async for m in client.list(namespace, page_size=100)]) == 251
            assert len([m async for m in client.export(namespace)]) == 251
            assert [n.namespace async for n in client.namespaces(namespace)] == [namespace]
            await client.wait_indexed(namespace)
            new = await client.supersede(namespace, stored.memory.id, "Tea is at five.")
            assert (await client.update(namespace, new.memory.id, title="Tea")).memory.title == "Tea"
            assert (await client.get(namespace, new.memory.id))[0].title == "Tea"
            assert await client.forget(namespace, new.memory.id) == 1
            with pytest.raises(triskele.InvalidArgument) as caught:
                await client.recall(namespace, "tea", limit=5000)
            assert caught.value.field == "limit"
            with pytest.raises(triskele.InvalidArgument) as caught:
                many = [{"namespace": namespace, "content": "tea", "importance": n // 240} for n in range(490)]
                await client.import_(many, dry_run=True)
            assert caught.value.field == "memories[480].importance"
            with pytest.raises(triskele.InvalidArgument):
                [m async for m in client.export("No Such Name")]
            assert (await client.namespace(namespace)).namespace == namespace
            assert await client.rename_namespace(namespace, f"{namespace}-new") == 251
            assert await client.delete_namespace(f"{namespace}-new") == 251
        async with AsyncClient(away) as client:
            fake.failures = 2
            await client.recall("n", "tea")
            fake.failures = 1
            with pytest.raises(triskele.Unavailable):
                await client.remember("n", "tea")

    asyncio.run(use())
    assert [name for name, _, _ in fake.calls] == ["Recall"] * 3 + ["Remember"]
