import { type DescMessage, type Message, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { maxBytes } from "./bounds.js";
import { invalid } from "./errors.js";
import { MemorySchema } from "./gen/triskele/v1/memory_pb.js";

/** The gateway accepts 1 MiB for a single memory. */
const memoryBytes = 1 << 20;

/** Throws InvalidArgument if a text of a message is binary, has broken Unicode, or has more bytes than the contract allows. */
export function check(desc: DescMessage, message: Message, path = ""): void {
  for (const field of desc.fields) {
    const value = (message as unknown as Record<string, unknown>)[field.localName];
    if (value === undefined) {
      continue;
    }
    const under = path === "" ? field.name : `${path}.${field.name}`;
    const items: [unknown, string][] = field.fieldKind === "list" && Array.isArray(value)
      ? value.map((item, n) => [item, `${under}[${n}]`])
      : [[value, under]];
    const most = maxBytes[`${desc.typeName}.${field.name}`] ?? Infinity;
    for (const [item, where] of items) {
      if (field.message !== undefined && field.fieldKind !== "map") {
        if (field.message.typeName.startsWith("triskele.")) {
          check(field.message, item as Message, where);
        }
      } else if (field.scalar === 9 && field.fieldKind !== "map") { // a text
        text(item, most, where);
      }
    }
  }
  if (desc.typeName === MemorySchema.typeName && toBinary(MemorySchema, message as MessageShape<typeof MemorySchema>).length > memoryBytes) {
    throw invalid(path || "memory", `must be at most ${memoryBytes} bytes in all`);
  }
}

function text(value: unknown, most: number, where: string): void {
  if (typeof value !== "string") {
    throw invalid(where, "must be text");
  }
  if (value.includes("\0")) {
    throw invalid(where, "must not contain a zero byte");
  }
  if (!value.isWellFormed()) {
    throw invalid(where, "must be valid Unicode");
  }
  if (value.length > most || new TextEncoder().encode(value).length > most) {
    throw invalid(where, `must be at most ${most} bytes`);
  }
}
