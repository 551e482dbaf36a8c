/** Tools for the Vercel AI SDK. The namespace is fixed, so a model cannot choose another one. */
import { create } from "@bufbuild/protobuf";
import { jsonSchema, tool } from "ai";
import type { Client } from "./client.js";
import { TriskeleError } from "./errors.js";
import { type RecallResponse, RecallResponseSchema } from "./gen/triskele/v1/recall_pb.js";

/** Lets a model recall memories of a namespace. `limit` is the most memories, and `timeoutMs` the budget. */
export function recallTool(client: Client, namespace: string, { limit = 5, timeoutMs = 2000 } = {}) {
  return tool({
    description: "Searches long-term memory for what matters to a question: facts, decisions, preferences from earlier conversations.",
    inputSchema: jsonSchema<{ query: string }>({
      type: "object",
      properties: { query: { type: "string", description: "The question, in a sentence." } },
      required: ["query"],
      additionalProperties: false,
    }),
    execute: async ({ query }, { abortSignal }) => {
      const answer = await client.recall(namespace, query, { limit }, { timeoutMs, signal: abortSignal }).catch(nothingYet);
      const memories = answer.hits.flatMap(({ memory }) => (memory ? [{ id: memory.id, title: memory.title, content: memory.content, tags: memory.tags }] : []));
      return answer.degraded ? { memories, incomplete: answer.degradedReason } : { memories };
    },
  });
}

/** Is an answer without memories, in place of the error for a namespace in which nothing was stored yet. */
function nothingYet(reason: unknown): RecallResponse {
  if (reason instanceof TriskeleError && /^namespaces\[0\]: ".*" is unknown/.test(reason.message)) {
    return create(RecallResponseSchema);
  }
  throw reason;
}

/** Lets a model store a memory in a namespace. */
export function rememberTool(client: Client, namespace: string) {
  return tool({
    description: "Stores a fact in long-term memory, to be found in later conversations.",
    inputSchema: jsonSchema<{ content: string; tags?: string[] }>({
      type: "object",
      properties: {
        content: { type: "string", description: "One fact, in a sentence that is clear without this conversation." },
        tags: { type: "array", items: { type: "string" } },
      },
      required: ["content"],
      additionalProperties: false,
    }),
    execute: async ({ content, tags = [] }, { abortSignal }) => {
      const { memory } = await client.remember(namespace, content, { tags }, { signal: abortSignal });
      return { id: memory?.id };
    },
  });
}
