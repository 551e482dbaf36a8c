// The program of the documentation, compiled, with a model that does as it is told.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { MockLanguageModelV2 } from "ai/test";
import { connect } from "triskele/node";
import { turn } from "./agent.js";

test("what an agent remembers in one turn it recalls in another", async () => {
  const client = connect(`http://${process.env.TRISKELE_ADDRESS}`), namespace = `typescript/${randomUUID()}`;
  const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
  const model = new MockLanguageModelV2({
    doGenerate: async ({ prompt }) => {
      const last = prompt.at(-1);
      if (last.role === "tool") return { content: [{ type: "text", text: JSON.stringify(last.content[0].output) }], finishReason: "stop", usage, warnings: [] };
      const said = last.content[0].text;
      const [toolName, input] = said.endsWith("?") ? ["recall", { query: said }] : ["remember", { content: said }];
      return { content: [{ type: "tool-call", toolCallId: randomUUID(), toolName, input: JSON.stringify(input) }], finishReason: "tool-calls", usage, warnings: [] };
    },
  });
  await turn(client, namespace, model, "Deploys are frozen from Thursday noon.");
  await client.waitIndexed(namespace);
  assert.match(await turn(client, namespace, model, "When are deploys frozen?"), /frozen from Thursday noon/);
});
