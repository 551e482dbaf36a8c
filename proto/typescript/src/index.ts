/** The client over any transport of Connect. `triskele/node` and `triskele/web` make the usual ones. */
export { Client, type CallOptions } from "./client.js";
export { TriskeleError, type Violation } from "./errors.js";
export { fromJson } from "@bufbuild/protobuf";
export { durationFromMs, timestampDate, timestampFromDate, ValueSchema } from "@bufbuild/protobuf/wkt";
export { Code } from "@connectrpc/connect";
export * from "./gen/triskele/v1/leg_pb.js";
export * from "./gen/triskele/v1/memory_pb.js";
export * from "./gen/triskele/v1/recall_pb.js";
export * from "./gen/triskele/v1/trace_pb.js";
