import { fromBinary } from "@bufbuild/protobuf";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { durationMs, DurationSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";

/** A field that is not as it must be. The field is a path from the request, such as `memory.content`. */
export interface Violation {
  field: string;
  bound: string;
}

/**
 * A call that failed. The client raises it too, with InvalidArgument, for values that it does not send. `retryAfterMs` is the time to wait in
 * milliseconds, if it is known.
 */
export class TriskeleError extends Error {
  override name = "TriskeleError";

  constructor(
    readonly code: Code,
    message: string,
    readonly violations: readonly Violation[] = [],
    options?: ErrorOptions,
    readonly retryAfterMs?: number,
  ) {
    super(message, options);
  }

  /** The first field that is not as it must be, or an empty text. */
  get field(): string {
    return this.violations[0]?.field ?? "";
  }

  /** What that field must be, or an empty text. */
  get bound(): string {
    return this.violations[0]?.bound ?? "";
  }
}

/** Returns the error for a value that is not sent, in the words of the gateway's own. */
export function invalid(field: string, bound: string): TriskeleError {
  return new TriskeleError(Code.InvalidArgument, `${field}: ${bound}`, [{ field, bound }]);
}

/** Returns any error of a call as one of this package. */
export function from(reason: unknown): TriskeleError {
  if (reason instanceof TriskeleError) {
    return reason;
  }
  const err = ConnectError.from(reason);
  const details = (type: string) => err.details.flatMap((d) => ("type" in d && d.type === type ? [d.value] : []));
  const [wait] = details("google.rpc.RetryInfo").flatMap((bytes) => fields(bytes, 1)); // retry_delay
  return new TriskeleError(
    err.code, err.rawMessage, details("google.rpc.BadRequest").flatMap(badRequest), { cause: err }, wait && durationMs(fromBinary(DurationSchema, wait)),
  );
}

/** Counts the memories that an error names from the first of an import, so many of which were in earlier batches. */
export function after(err: TriskeleError, sent: number): TriskeleError {
  const moved = (text: string) => text.replace(/memories\[(\d+)\]/g, (_, number) => `memories[${sent + Number(number)}]`);
  return new TriskeleError(err.code, moved(err.message), err.violations.map(({ field, bound }) => ({ field: moved(field), bound })), { cause: err.cause }, err.retryAfterMs);
}

/** Reads google.rpc.BadRequest: field_violations = 1 with field = 1 and description = 2. */
function badRequest(bytes: Uint8Array): Violation[] {
  const out: Violation[] = [];
  for (const violation of fields(bytes, 1)) {
    const text = (n: number) => fields(violation, n).map((b) => new TextDecoder().decode(b)).join("");
    out.push({ field: text(1), bound: text(2) });
  }
  return out;
}

/** Returns the values of a field with a length, in order. */
function fields(bytes: Uint8Array, wanted: number): Uint8Array[] {
  const out: Uint8Array[] = [];
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    if (number === wanted && type === 2) {
      out.push(reader.bytes());
    } else {
      reader.skip(type, number);
    }
  }
  return out;
}
