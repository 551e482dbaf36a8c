// The installed package against gateways that tests/clients/typescript.sh has started.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import http2 from "node:http2";
import net from "node:net";
import { after, test } from "node:test";
import { ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { context, propagation, trace } from "@opentelemetry/api";
import { generateText, stepCountIs } from "ai";
import { MockLanguageModelV2 } from "ai/test";
import { recallTool, rememberTool } from "triskele/ai";
import { Code, connect, fromJson, MemoryService, RecallService, timestampFromDate, TriskeleError, ValueSchema } from "triskele/node";
import { traced } from "triskele/otel";
import { connect as connectWeb } from "triskele/web";

const address = `http://${process.env.TRISKELE_ADDRESS}`;
const client = connect(address);
const somewhere = () => `typescript/${randomUUID()}`;
const all = async (items) => { const out = []; for await (const item of items) out.push(item); return out; };
const fails = (code, field) => (err) => {
  assert.ok(err instanceof TriskeleError, String(err));
  assert.equal(Code[err.code], Code[code]);
  if (field !== undefined) {
    assert.equal(err.field, field);
    assert.notEqual(err.bound, "");
  }
  return true;
};

for (const [name, c] of [["gRPC", client], ["gRPC-Web", connectWeb(address)]]) {
  test(`${name}: what is stored is recalled, changed, replaced and forgotten`, async () => {
    const namespace = somewhere();
    const stored = await c.remember(namespace, "Deploys are frozen from Thursday noon.", { tags: ["release"], metadata: { team: "ops" } });
    await c.remember(namespace, "The staging password is rotated on Mondays.");
    const answer = await c.recall(namespace, "are deploys frozen on Friday?", { limit: 1, atLeast: [stored.revisionToken] });
    assert.deepEqual(answer.hits.map((h) => h.memory.content), ["Deploys are frozen from Thursday noon."]);
    const { id } = stored.memory;
    const changed = await c.update(namespace, id, { title: "Freeze", expandedKeywords: ["ship"] }, 1n);
    assert.deepEqual([changed.memory.revision, changed.memory.title, changed.memory.expandedKeywords], [2n, "Freeze", ["ship"]]);
    await assert.rejects(c.update(namespace, id, { title: "Thaw" }, 1n), fails(Code.Aborted));
    const replaced = await c.supersede(namespace, id, "Deploys are allowed.");
    assert.equal(replaced.superseded.supersededBy, replaced.memory.id);
    assert.deepEqual((await c.get(namespace, [id, randomUUID()])).map((m) => m.id), [id]);
    assert.equal((await all(c.list(namespace, { pageSize: 1 }))).length, 2);
    assert.equal((await all(c.export(namespace))).length, 3);
    await c.waitIndexed(namespace);
    assert.equal((await c.namespace(namespace, true)).statistics.superseded, 1n);
    assert.deepEqual((await all(c.namespaces(namespace))).map((n) => n.namespace), [namespace]);
    assert.equal(await c.forget(namespace, id), 1n);
    assert.equal(await c.renameNamespace(namespace, `${namespace}-new`), 2n);
    assert.equal(await c.deleteNamespace(`${namespace}-new`), 2n);
    await assert.rejects(c.namespace(namespace), fails(Code.NotFound));
  });

  test(`${name}: an error names field and bound`, async () => {
    await assert.rejects(c.recall("n", "tea", { limit: 5000 }), fails(Code.InvalidArgument, "limit"));
    await assert.rejects(c.remember("No Such Name", "tea"), fails(Code.InvalidArgument, "memory.namespace"));
    await assert.rejects(all(c.export("No Such Name")), fails(Code.InvalidArgument, "namespace"));
  });
}

test("an import can be repeated", async () => {
  const namespace = somewhere();
  const memories = Array.from({ length: 450 }, (_, n) => ({ id: randomUUID(), namespace, content: `Fact ${n}` }));
  const first = await client.import(memories, { returnIds: true });
  assert.deepEqual([first.stored, first.unchanged, first.ids], [450n, 0n, memories.map((m) => m.id)]);
  const again = await client.import(memories);
  assert.deepEqual([again.stored, again.unchanged], [0n, 450n]);
  const wrong = memories.map((m, n) => ({ ...m, importance: n === 440 ? 7 : 0.5 }));
  await assert.rejects(client.import(memories, { dry_run: true }), fails(Code.InvalidArgument, "dry_run"));
  await assert.rejects(client.import(wrong, { dryRun: true }), (err) => fails(Code.InvalidArgument, "memories[440].importance")(err) && /^memories\[440\]/.test(err.message));
});

test("an import of large memories fits the gateway's messages", async () => {
  const namespace = somewhere();
  const large = { metadata: { notes: "x".repeat(16_000) }, tags: Array.from({ length: 32 }, (_, n) => "t".repeat(120) + n) };
  const memories = Array.from({ length: 200 }, (_, n) => ({ namespace, content: `${n + 100} `.repeat(16_300), ...large }));
  assert.equal((await client.import(memories, {}, { timeoutMs: undefined })).stored, 200n);
  await assert.rejects(client.import([...memories.slice(0, 20), { namespace, content: "y".repeat(70_000) }]), fails(Code.InvalidArgument, "memories[20].content"));
});

/** A gateway that fails as often as it is told, and keeps what it was called with. */
async function fake() {
  const state = { failures: 0, details: [], calls: [], hold: Promise.resolve(), indexes: [], exports: [] };
  const meet = async (name, ctx) => {
    state.calls.push({ name, header: ctx.requestHeader, left: ctx.timeoutMs() });
    await state.hold;
    if (state.failures-- > 0) throw Object.assign(new ConnectError("not yet", Code.Unavailable), { details: state.details });
    return {};
  };
  const getIndexStatus = async (_, ctx) => {
    await meet("getIndexStatus", ctx);
    return { legs: state.indexes.length > 1 ? state.indexes.shift() : state.indexes[0] };
  };
  const server = http2.createServer(connectNodeAdapter({
    routes: (router) => router
      .service(RecallService, { recall: (_, ctx) => meet("recall", ctx), getIndexStatus })
      .service(MemoryService, {
        remember: (_, ctx) => meet("remember", ctx),
        async *export(_, ctx) {
          state.exports.push(new Promise((ended) => ctx.signal.addEventListener("abort", ended)));
          while (!ctx.signal.aborted) yield { memories: [{ content: "x".repeat(1000) }] };
        },
      }),
  }));
  const sessions = new Set();
  server.on("session", (s) => sessions.add(s));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  after(() => { for (const s of sessions) s.destroy(); server.close(); });
  return { state, address: `http://127.0.0.1:${server.address().port}` };
}

test("what is binary or huge is not sent", async () => {
  const { state, address } = await fake();
  const c = connect(address);
  const cases = [
    ["content", new Uint8Array([255]), {}], ["content", "broken \ud800", {}], ["content", "zero \0", {}], ["content", "x".repeat(65537), {}],
    ["title", "x", { title: "é".repeat(257) }], ["tags[1]", "x", { tags: ["a", "b".repeat(129)] }],
  ];
  for (const [field, content, more] of cases) {
    await assert.rejects(c.remember("n", content, more), fails(Code.InvalidArgument, `memory.${field}`));
    await assert.rejects(c.import([{ namespace: "n", content, ...more }]), fails(Code.InvalidArgument, `memories[0].${field}`));
  }
  await assert.rejects(c.remember("n", "x", { metadata: { a: "y".repeat(1 << 20) } }), fails(Code.InvalidArgument, "memory"));
  await assert.rejects(c.recall("n", "q".repeat(32769)), fails(Code.InvalidArgument, "query"));
  assert.equal(state.calls.length, 0);
});

test("what a message would drop or misread is not sent", async () => {
  const { state, address } = await fake();
  const c = connect(address);
  const cases = [
    ["occurred_at", { occurredAt: new Date() }], ["occurred_at", { occurredAt: "2026-01-02T03:04:05Z" }], ["tags", { tags: "release" }], ["tags", { tags: new Set(["a"]) }],
    ["sensitive", { sensitive: "false" }], ["metadata", { metadata: [1] }], ["metadata", { metadata: "xy" }], ["metadata", { metadata: new Map([["a", 1]]) }],
    ...[new Date(0), new Map(), 1n, () => 1, NaN, undefined, "\ud800", "zero \0"].map((a) => ["metadata.a", { metadata: { a } }]),
    ["metadata.a.b[1]", { metadata: { a: { b: [1, new Set()] } } }], ["metadata.a[0]", { metadata: { a: [,] } }], ["metadata", { metadata: { "\ud800": 1 } }],
    ...[1.5, 2 ** 63, 2n ** 63n, "1", NaN].map((position) => ["position", { thread: "t", position }]),
    ["importance", { importance: "high" }], ["occurred_at.seconds", { occurredAt: { seconds: 1.5 } }], ["occurred_at.ms", { occurredAt: { ms: 5 } }],
    ["idempotency_key", { idempotency_key: "k" }], ["tag", { tag: ["release"] }], ["links[0].to", { links: [{ to: "x" }] }],
  ];
  for (const [field, more] of cases) {
    await assert.rejects(c.remember("n", "x", more), fails(Code.InvalidArgument, `memory.${field}`));
    await assert.rejects(c.import([{ namespace: "n", content: "x", ...more }]), fails(Code.InvalidArgument, `memories[0].${field}`));
  }
  for (const [field, fields] of [
    ["filter.created_from", { filter: { createdFrom: new Date() } }], ['filter.metadata["team"]', { filter: { metadata: { team: "ops" } } }],
    ['filter.metadata["team"]', { filter: { metadata: { team: fromJson(ValueSchema, "\ud800") } } }], ["filter.metadata", { filter: { metadata: new Map() } }],
    ...[1.5, 2 ** 31, 5n, "5"].map((limit) => ["limit", { limit }]), ["on_error", { onError: 0.5 }], ["vector[1]", { vector: [0, 1e39] }],
    ["filter.metadata", { filter: { metadata: { "\ud800": fromJson(ValueSchema, 1) } } }],
    ["budget", { budget: 0.3 }], ["sort_by", { sortBy: "recency" }], ['legs["dense"].deadline', { legs: { dense: { deadline: 100 } } }],
  ]) {
    await assert.rejects(c.recall("n", "x", fields), fails(Code.InvalidArgument, field));
  }
  assert.equal(state.calls.length, 0);
  await c.recall("n", "x", { vector: new Float32Array(2), legs: { dense: undefined }, budget: { nanos: 300_000_000 }, filter: { createdFrom: timestampFromDate(new Date()), metadata: { team: fromJson(ValueSchema, "ops") } } });
  const metadata = Object.assign(Object.create(null), { a: [null, true, 1.5, "x", { b: {} }] });
  await c.remember("n", "x", { sensitive: false, metadata, importance: 1, position: -(2n ** 63n) });
  await c.remember("n", "x", { position: 2 ** 60 });
  assert.equal(state.calls.length, 3);
});

test("what is an argument of a call is not a field of it too", async () => {
  const { state, address } = await fake();
  const c = connect(address);
  await assert.rejects(c.remember("n", "x", { namespace: "other" }), fails(Code.InvalidArgument, "memory.namespace"));
  await assert.rejects(c.supersede("n", randomUUID(), "x", { content: "y" }), fails(Code.InvalidArgument, "replacement.content"));
  await assert.rejects(c.recall("n", "x", { query: "other" }), fails(Code.InvalidArgument, "query"));
  await assert.rejects(c.recall("n", "x", { namespaces: ["other"] }), fails(Code.InvalidArgument, "namespaces"));
  await assert.rejects(all(c.list("n", { namespace: "other" })), fails(Code.InvalidArgument, "namespace"));
  await assert.rejects(c.import([{ namespace: "n", content: "x" }], { memories: [{}] }), fails(Code.InvalidArgument, "memories"));
  assert.equal(state.calls.length, 0);
  await c.remember("n", "x", { namespace: undefined, content: "" });
  await c.remember("n", "x", { namespace: "n" });
});

test("an error says when to try again", async () => {
  const { state, address } = await fake();
  state.failures = 1;
  const value = new Uint8Array([0x0a, 8, 0x08, 2, 0x10, 0x80, 0xca, 0xb5, 0xee, 1]); // retry_delay of 2.5 s
  state.details = [{ type: "google.rpc.RetryInfo", value }];
  await assert.rejects(connect(address).remember("n", "tea"), { retryAfterMs: 2500 });
  await assert.rejects(client.recall("n", "tea", { limit: 5000 }), { retryAfterMs: undefined });
});

test("reads are tried again and writes are not", async () => {
  const { state, address } = await fake();
  const c = connect(address);
  state.failures = 2;
  await c.recall("n", "tea");
  assert.equal(state.calls.length, 3);
  state.failures = 1;
  await assert.rejects(c.remember("n", "tea"), fails(Code.Unavailable));
  assert.equal(state.calls.length, 4);
});

test("a status that fails does not end the wait for the indexes", async () => {
  const { state, address } = await fake();
  const c = connect(address);
  state.failures = 4; // more than a call tries
  state.indexes = [[{ leg: "dense", error: "away" }], [{ leg: "dense", status: { pending: 1n } }], [{ leg: "dense", status: {} }]];
  await c.waitIndexed("n");
  assert.equal(state.indexes.length, 1);
  state.indexes = [[{ leg: "dense", error: "away" }]];
  const waiting = c.waitIndexed("n", { timeoutMs: 1000 });
  let release;
  setTimeout(() => { state.hold = new Promise((done) => { release = done; }); }, 300); // the last call gets no answer
  await assert.rejects(waiting, fails(Code.Unavailable));
  release();
});

test("every call has a deadline", async () => {
  const { state, address } = await fake();
  const c = connect(address);
  await c.recall("n", "tea");
  await c.recall("n", "tea", {}, { timeoutMs: 3_600_000 });
  const [usual, given] = state.calls.map((call) => call.left);
  assert.ok(usual > 5000 && usual <= 10_000, `usual: ${usual}`);
  assert.ok(given > 3_500_000, `given: ${given}`);
  let release;
  state.hold = new Promise((done) => { release = done; });
  await assert.rejects(c.recall("n", "tea", {}, { timeoutMs: 200 }), fails(Code.DeadlineExceeded));
  release();
});

test("any time may be given to a call", async () => {
  for (const c of [client, connectWeb(address)]) {
    for (const timeoutMs of [5000.5, 2 ** 31, Infinity]) {
      const namespace = somewhere();
      await c.remember(namespace, "tea", {}, { timeoutMs });
      assert.equal((await c.recall(namespace, "tea", {}, { timeoutMs })).hits.length, 1);
      assert.equal((await all(c.export(namespace, { timeoutMs }))).length, 1);
      await c.waitIndexed(namespace, { timeoutMs });
    }
  }
});

test("an export that is left ends", async () => {
  const { state, address } = await fake();
  const leave = new AbortController();
  const c = connect(address);
  for await (const memory of c.export("n")) {
    assert.equal(memory.content.length, 1000);
    break;
  }
  await assert.rejects(async () => { for await (const _ of c.export("n", { signal: leave.signal })) leave.abort(); }, fails(Code.Canceled));
  assert.equal(state.exports.length, 2);
  await Promise.all(state.exports);
});

test("a gateway that is away is an error in time", async () => {
  const taken = net.createServer();
  await new Promise((done) => taken.listen(0, "127.0.0.1", done));
  const target = `http://127.0.0.1:${taken.address().port}`;
  await new Promise((done) => taken.close(done));
  const start = Date.now();
  for (const c of [connect(target), connectWeb(target)]) {
    await assert.rejects(c.recall("n", "tea", {}, { timeoutMs: 2000 }), fails(Code.Unavailable));
    await assert.rejects(c.remember("n", "tea", {}, { timeoutMs: 2000 }), fails(Code.Unavailable));
    await assert.rejects(all(c.export("n", { timeoutMs: 2000 })), fails(Code.Unavailable));
  }
  assert.ok(Date.now() - start < 10_000);
});

test("a token goes to no other machine in plain text", async () => {
  const { state, address } = await fake();
  await connect(address, { token: "secret" }).recall("n", "tea");
  assert.equal(state.calls[0].header.get("authorization"), "Bearer secret");
  for (const target of ["http://memory.example.com:7400", "http://10.0.0.1:7400", "http://localhost.example.com:1", "http://127.0.0.1.example.com"]) {
    assert.throws(() => connect(target, { token: "secret" }), (err) => /only with https/.test(err.message) && !err.message.includes("secret"));
  }
});

test("TLS and tokens", async () => {
  const read = (name) => readFileSync(`${process.env.TRISKELE_SECURE}/${name}`, "utf8").trim();
  const [target, token, ca] = [`https://${read("address")}`, read("token"), read("gateway.pem")];
  const mine = `acme/${somewhere()}`;
  const c = connect(target, { token, ca });
  await c.remember(mine, "Salaries are paid on the last working day.");
  assert.equal((await c.recall(mine, "when are salaries paid")).hits.length, 1);
  await assert.rejects(c.recall("other", "tea"), fails(Code.PermissionDenied));
  await assert.rejects(connect(target, { ca }).recall(mine, "tea"), fails(Code.Unauthenticated));
  await assert.rejects(connect(target, { token }).remember(mine, "nobody vouches for this gateway"), (err) => err instanceof TriskeleError && /certificate/.test(err.message));
});

test("a trace is continued", async () => {
  const { state, address } = await fake();
  propagation.setGlobalPropagator({
    inject: (ctx, carrier, setter) => setter.set(carrier, "traceparent", `00-${trace.getSpanContext(ctx).traceId}-00f067aa0ba902b7-01`),
    extract: (ctx) => ctx, fields: () => ["traceparent"],
  });
  const span = trace.setSpanContext(context.active(), { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7", traceFlags: 1 });
  context.setGlobalContextManager({ active: () => span, with: (_, f) => f(), bind: (_, f) => f, enable() { return this; }, disable() { return this; } });
  await connect(address, { interceptors: [traced] }).recall("n", "tea");
  context.disable();
  assert.match(state.calls[0].header.get("traceparent") ?? "", /4bf92f3577b34da6a3ce929d0e0e4736/);
});

test("a model of the AI SDK remembers and recalls", async () => {
  const namespace = somewhere();
  const tools = { remember: rememberTool(client, namespace), recall: recallTool(client, namespace) };
  // The model calls one tool, and then says what it was given. It counts its calls from 0 in each conversation, as some models do.
  const ask = async (toolName, input) => {
    const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
    const model = new MockLanguageModelV2({
      doGenerate: async ({ prompt }) => {
        const last = prompt.at(-1);
        return last.role === "tool"
          ? { content: [{ type: "text", text: JSON.stringify(last.content[0].output) }], finishReason: "stop", usage, warnings: [] }
          : { content: [{ type: "tool-call", toolCallId: `functions.${toolName}:0`, toolName, input: JSON.stringify(input) }], finishReason: "tool-calls", usage, warnings: [] };
      },
    });
    return (await generateText({ model, tools, prompt: "Go on.", stopWhen: stepCountIs(3) })).text;
  };
  assert.match(await ask("recall", { query: "are deploys frozen?" }), /"memories":\[\]/); // the first question of a new agent
  await assert.rejects(recallTool(client, "No Such Name").execute({ query: "deploys" }, {}), fails(Code.InvalidArgument));
  await ask("remember", { content: "Deploys are frozen from Thursday noon.", tags: ["release"] });
  await ask("remember", { content: "The staging password is rotated on Mondays." });
  assert.equal((await all(client.list(namespace))).length, 2);
  const said = await ask("recall", { query: "are deploys frozen?" });
  assert.match(said, /Deploys are frozen from Thursday noon\./);
  assert.match(said, /release/);
});
