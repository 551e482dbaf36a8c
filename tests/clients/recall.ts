// Stores a memory and recalls it. Usage: node recall.js http://HOST:PORT
import { connect } from "triskele/node";

const client = connect(process.argv[2] ?? "http://127.0.0.1:7400");

const stored = await client.remember("typescript", "Deploys are frozen from Thursday noon.", { tags: ["release"] });

const answer = await client.recall(
  "typescript",
  "are deploys frozen on Friday?",
  { limit: 3, atLeast: [stored.revisionToken] },
  { timeoutMs: 500 }, // the budget: legs that need longer are left out
);
for (const hit of answer.hits) {
  console.log(hit.rank, hit.score.toFixed(3), hit.memory?.content);
}
if (answer.degraded) {
  console.log(answer.degradedReason);
}
