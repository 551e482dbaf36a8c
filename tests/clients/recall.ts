// Stores a memory and recalls it. Usage: node recall.js HOST:PORT
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { MemoryService } from "./gen/triskele/v1/memory_pb.js";
import { RecallService } from "./gen/triskele/v1/recall_pb.js";

const transport = createGrpcTransport({ baseUrl: `http://${process.argv[2]}` });
const memories = createClient(MemoryService, transport);
const recalls = createClient(RecallService, transport);

const stored = await memories.remember({
  memory: { namespace: "typescript", content: "Deploys are frozen from Thursday noon.", tags: ["release"] },
});

const answer = await recalls.recall(
  { namespaces: ["typescript"], query: "are deploys frozen on Friday?", atLeast: [stored.revisionToken] },
  { timeoutMs: 500 }, // the budget: legs that need longer are left out
);
for (const hit of answer.hits) {
  console.log(hit.rank, hit.score.toFixed(3), hit.memory?.content);
}
if (answer.degraded) {
  console.log(answer.degradedReason);
}
