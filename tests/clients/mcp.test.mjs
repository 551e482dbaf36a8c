// Each client does what an agent does, in both eras of the protocol: it asks for the tools, remembers something and recalls it.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { Client as ClientV2, StreamableHTTPClientTransport as HTTPv2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as StdioV2 } from "@modelcontextprotocol/client/stdio";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as StdioV1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as HTTPv1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const run = promisify(execFile);
const program = process.env.TRISKELE;
const folder = process.cwd(); // a temporary one
const implementation = { name: "test", version: "1" };
const tools = ["forget", "list", "recall", "remember", "supersede", "update"];
const fact = "Deploys are frozen from Thursday noon.";

let server, url, token;

before(async () => {
  const tokens = join(folder, "tokens.json");
  token = (await run(program, ["token", "create", "agent", "--namespace", "default", "--scope", "recall,read,write", "--tokens", tokens])).stdout.trim();
  server = spawn(program, ["mcp", "--listen", "127.0.0.1:0", "--tokens", tokens, "--sqlite", join(folder, "http.db")]);
  url = await new Promise((resolve, reject) => {
    let said = "";
    server.stderr.on("data", (data) => {
      said += data;
      const found = said.match(/MCP on (https?:\/\/[^\s;]+);/);
      if (found) resolve(found[1]);
    });
    server.on("exit", () => reject(new Error(said)));
  });
});

after(() => server?.kill());

// An SDK's client, connected.
async function sdk(Client, options, transport) {
  const client = new Client(implementation, options);
  await client.connect(transport);
  return {
    list: () => client.listTools(),
    call: (name, args) => client.callTool({ name, arguments: args }),
    close: () => client.close(),
  };
}

// The Inspector, which starts anew for each call.
function inspector(era, target) {
  const ask = async (method, more) => {
    const flags = ["--protocol-era", era, "--quiet", "--method", method, ...more];
    const { stdout } = await run(process.execPath, ["node_modules/.bin/mcp-inspector", "--cli", ...target, ...flags], { env: { ...process.env, HOME: folder } });
    return JSON.parse(stdout);
  };
  return {
    list: () => ask("tools/list", ["--strict"]), // which complains of schemas that some client cannot use
    call: (name, args) => ask("tools/call", ["--tool-name", name, "--tool-args-json", JSON.stringify(args)]),
    close: () => {},
  };
}

let stores = 0;
const stdio = () => ["mcp", "--sqlite", join(folder, `${++stores}.db`)];
const headers = () => ({ requestInit: { headers: { Authorization: `Bearer ${token}` } } });
const modern = { versionNegotiation: { mode: { pin: "2026-07-28" } } };
const http = () => ["--server-url", url, "--transport", "http", "--header", `Authorization: Bearer ${token}`];

const clients = {
  "SDK 1 over stdio": () => sdk(ClientV1, {}, new StdioV1({ command: program, args: stdio() })),
  "SDK 1 over HTTP": () => sdk(ClientV1, {}, new HTTPv1(new URL(url), headers())),
  "SDK 2 over stdio": () => sdk(ClientV2, modern, new StdioV2({ command: program, args: stdio() })),
  "SDK 2 over HTTP": () => sdk(ClientV2, modern, new HTTPv2(new URL(url), headers())),
  "Inspector over stdio": () => inspector("legacy", [program, ...stdio()]),
  "Inspector over HTTP": () => inspector("legacy", http()),
  "Inspector over stdio, modern": () => inspector("modern", [program, ...stdio()]),
  "Inspector over HTTP, modern": () => inspector("modern", http()),
};

for (const [name, connect] of Object.entries(clients)) {
  test(name, async () => {
    const client = await connect();
    try {
      assert.deepEqual((await client.list()).tools.map((tool) => tool.name).sort(), tools);
      const stored = await client.call("remember", { content: fact, title: name });
      assert.match(stored.structuredContent.id, /^[0-9a-f-]{36}$/);
      const recalled = await client.call("recall", { query: "deploy freeze" });
      assert.ok(recalled.structuredContent.memories.some((memory) => memory.content === fact), JSON.stringify(recalled));
      assert.match(recalled.content[0].text, /frozen from Thursday noon/);
      const refused = await client.call("forget", { ids: ["x"] }).catch((error) => error);
      assert.ok(refused instanceof Error || refused.isError, JSON.stringify(refused));
    } finally {
      await client.close();
    }
  });
}

test("without a token, a client learns where to ask for one", async () => {
  const response = await fetch(url, { method: "POST", body: "{}" });
  assert.equal(response.status, 401);
  assert.match(response.headers.get("www-authenticate"), /^Bearer/);
});
