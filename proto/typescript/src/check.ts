import { type DescField, type DescMessage, type Message, type MessageShape, ScalarType, toBinary } from "@bufbuild/protobuf";
import type { Value } from "@bufbuild/protobuf/wkt";
import { maxBytes } from "./bounds.js";
import { invalid } from "./errors.js";
import { MemorySchema } from "./gen/triskele/v1/memory_pb.js";

/** The gateway accepts 1 MiB for a single memory. */
const memoryBytes = 1 << 20;

/** How values of types that are not this package's are made. */
const others: Record<string, string> = {
  "google.protobuf.Timestamp": "must be a Timestamp: timestampFromDate(date) makes it",
  "google.protobuf.Duration": "must be a Duration: durationFromMs(300) makes it",
  "google.protobuf.Value": 'must be a Value: fromJson(ValueSchema, "x") makes it',
};

/** What scalars other than texts must be. Encoding would take "false" for true, and name no field for the others. */
const scalars: Partial<Record<ScalarType, [(value: unknown) => boolean, string]>> = {
  [ScalarType.BOOL]: [(value) => typeof value === "boolean", "must be true or false"],
  [ScalarType.DOUBLE]: [(value) => typeof value === "number", "must be a number"],
  [ScalarType.FLOAT]: [(value) => typeof value === "number" && Number.isFinite(Math.fround(value)), "must be a finite number of 32 bits"],
  [ScalarType.INT32]: [(value) => typeof value === "number" && value === (value | 0), "must be a whole number of 32 bits"],
  [ScalarType.INT64]: [
    (value) => typeof value === "bigint" ? value === BigInt.asIntN(64, value) : Number.isInteger(value) && Math.abs(value as number) < 2 ** 63,
    "must be a whole number of 64 bits",
  ],
};

/**
 * Throws InvalidArgument if the fields that a message is made of have a name or a value that would be dropped or misread: TypeScript refuses
 * them, JavaScript passes them on.
 */
export function checkFields(desc: DescMessage, fields: object, path = ""): void {
  for (const [name, value] of Object.entries(fields)) {
    const field = desc.field[name];
    const under = path === "" ? field?.name ?? name : `${path}.${field?.name ?? name}`;
    if (value === undefined || value === null || name.startsWith("$")) {
      continue;
    } else if (field === undefined) {
      const meant = desc.fields.find((f) => f.name === name)?.localName;
      throw invalid(under, meant ? `must be given as ${meant}` : `${desc.name} has no such field`);
    } else if (field.fieldKind === "map") {
      if (!plain(value)) {
        throw invalid(under, "must be a plain object");
      }
      for (const [key, item] of Object.entries(value)) {
        text(key, Infinity, under);
        checkValue(field, item, `${under}[${JSON.stringify(key)}]`);
      }
    } else if (field.fieldKind !== "list") {
      checkValue(field, value, under);
    } else if (Array.isArray(value)) {
      value.forEach((item, n) => checkValue(field, item, `${under}[${n}]`));
    } else if (!ArrayBuffer.isView(value)) { // a Float32Array may be a vector
      throw invalid(under, "must be a list");
    }
  }
}

function checkValue(field: DescField, value: unknown, path: string): void {
  const type = field.message?.typeName ?? "";
  const other = typeof value !== "object" || value === null || "getTime" in value || (type === "google.protobuf.Value" && !("kind" in value));
  if (others[type] !== undefined && other) {
    throw invalid(path, others[type]);
  }
  if (field.enum !== undefined && !Number.isInteger(value)) {
    throw invalid(path, `must be a ${field.enum.name}, such as ${field.enum.name}.${field.enum.values[1]?.localName}`);
  }
  const [fits, bound] = (field.scalar && scalars[field.scalar]) ?? [];
  if (fits?.(value) === false) {
    throw invalid(path, bound!);
  }
  if (type === "google.protobuf.Struct") {
    if (!plain(value)) {
      throw invalid(path, "must be a plain object");
    }
    checkJson(value, path);
  }
  if (type === "google.protobuf.Value") {
    checkJson((value as Value).kind.value, path);
  }
  if (field.message && type !== "google.protobuf.Struct" && type !== "google.protobuf.Value") {
    checkFields(field.message, value ?? {}, path);
  }
}

/** Throws InvalidArgument at a value that JSON has no word for: a google.protobuf.Struct would keep another one. */
function checkJson(value: unknown, path: string): void {
  if (typeof value === "string") {
    text(value, Infinity, path);
  } else if (Array.isArray(value)) {
    Array.from(value).forEach((item, n) => checkJson(item, `${path}[${n}]`)); // forEach alone skips holes
  } else if (plain(value)) {
    for (const [key, item] of Object.entries(value)) {
      text(key, Infinity, path);
      checkJson(item, `${path}.${key}`);
    }
  } else if (value !== null && typeof value !== "boolean" && !Number.isFinite(value)) {
    throw invalid(path, "must be a plain object, a list, a text, a finite number, a boolean or null");
  }
}

/** Tells an object of names and values from one of a class, such as a Date or a Map. Another frame's Object is another class. */
function plain(value: unknown): value is object {
  if (typeof value !== "object" || value === null) {
    return false;
  }
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

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
