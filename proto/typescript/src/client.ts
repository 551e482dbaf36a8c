import { create, type DescMessage, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { type Client as Stub, Code, createClient, type Transport } from "@connectrpc/connect";
import { check, checkFields } from "./check.js";
import { after, from, invalid, TriskeleError } from "./errors.js";
import {
  DeleteNamespaceRequestSchema, ExportRequestSchema, ForgetRequestSchema, GetNamespaceRequestSchema, type GetNamespaceResponse, GetRequestSchema,
  ImportRequestSchema, type ImportResponse, ImportResponseSchema, type ListNamespacesResponse_Namespace, ListNamespacesRequestSchema,
  ListRequestSchema, type Memory, MemorySchema, MemoryService, RememberRequestSchema, type RememberResponse, RenameNamespaceRequestSchema,
  SupersedeRequestSchema, type SupersedeResponse, UpdateRequestSchema, type UpdateResponse,
} from "./gen/triskele/v1/memory_pb.js";
import { RecallRequestSchema, type RecallResponse, RecallService, RecallServiceGetIndexStatusRequestSchema } from "./gen/triskele/v1/recall_pb.js";

/** Bounds a call without a time of its own, in milliseconds. */
const defaultTimeoutMs = 10_000;
/** Bounds each batch of an import without a time of its own: the gateway works no longer on one. */
const importTimeoutMs = 120_000;
/** The longest time that gRPC can send in milliseconds: it has eight digits. A call may be given more, or Infinity. */
const longestMs = 99_999_999;
/** Bound a batch of an import in memories and bytes. The gateway accepts 1,000 of them and 16 MiB. */
const batchSize = 200;
const batchBytes = 8 << 20;
const attempts = 3;

/** `timeoutMs` bounds a call in milliseconds, and is the budget of a recall. `signal` ends it earlier. */
export interface CallOptions {
  timeoutMs?: number;
  signal?: AbortSignal;
}

type Fields<Desc extends DescMessage> = Exclude<MessageInitShape<Desc>, { $typeName: string }>;
type MemoryFields = Fields<typeof MemorySchema>;

/**
 * Calls a gateway. Fields are those of the contract, by their names in camelCase. Reads are tried again if the gateway cannot be reached;
 * writes are not: the caller can, with an idempotency key. Every call that fails throws a TriskeleError.
 *
 * `recalls` and `memories` are the generated stubs, for everything else.
 */
export class Client {
  readonly recalls: Stub<typeof RecallService>;
  readonly memories: Stub<typeof MemoryService>;

  constructor(transport: Transport) {
    this.recalls = createClient(RecallService, transport);
    this.memories = createClient(MemoryService, transport);
  }

  /** Returns the memories that matter for a query, best first. A leg that needs longer than `timeoutMs` is left out. */
  async recall(namespace: string | string[], query: string, fields: Fields<typeof RecallRequestSchema> = {}, options?: CallOptions): Promise<RecallResponse> {
    return read(this.recalls.recall, made(RecallRequestSchema, joined(fields, { namespaces: [namespace].flat(), query })), options);
  }

  /** Stores a memory. With an idempotency key it is stored once, however often the call is repeated. */
  async remember(namespace: string, content: string, memory: MemoryFields = {}, options?: CallOptions): Promise<RememberResponse> {
    return call(this.memories.remember, made(RememberRequestSchema, { memory: joined(memory, { namespace, content }, "memory.") }), options);
  }

  /** Changes these fields of a memory. It throws Aborted if an expected revision is not the current one. */
  async update(namespace: string, id: string, changes: MemoryFields, expectedRevision = 0n, options?: CallOptions): Promise<UpdateResponse> {
    const names = new Map(MemorySchema.fields.map((f) => [f.localName, f.name]));
    const paths = Object.keys(changes).map((name) => names.get(name) ?? name);
    return call(this.memories.update, made(UpdateRequestSchema, { namespace, id, memory: changes, updateMask: { paths }, expectedRevision }), options);
  }

  /** Stores a replacement of a memory. Recall leaves the old one out from then on. */
  async supersede(namespace: string, id: string, content: string, replacement: MemoryFields = {}, expectedRevision = 0n, options?: CallOptions): Promise<SupersedeResponse> {
    const request = { id, replacement: joined(replacement, { namespace, content }, "replacement."), expectedRevision };
    return call(this.memories.supersede, made(SupersedeRequestSchema, request), options);
  }

  /** Removes memories and everything derived from them. Returns how many there were. */
  async forget(namespace: string, ids: string | string[], options?: CallOptions): Promise<bigint> {
    return (await call(this.memories.forget, made(ForgetRequestSchema, { namespace, ids: [ids].flat() }), options)).forgotten;
  }

  /** Returns memories by id, in this order, without those that do not exist. */
  async get(namespace: string, ids: string | string[], options?: CallOptions): Promise<Memory[]> {
    return (await read(this.memories.get, made(GetRequestSchema, { namespace, ids: [ids].flat() }), options)).memories;
  }

  /** Yields the memories of a namespace, newest first. The time bounds each page. */
  async *list(namespace: string, fields: Fields<typeof ListRequestSchema> = {}, options?: CallOptions): AsyncGenerator<Memory> {
    const request = made(ListRequestSchema, joined(fields, { namespace }));
    do {
      const page = await read(this.memories.list, request, options);
      yield* page.memories;
      request.pageToken = page.nextPageToken;
    } while (request.pageToken !== "");
  }

  /**
   * Stores memories in batches, each in one transaction. Those that are stored already are counted as unchanged, so a broken import can be
   * run again. The time bounds each batch. Browsers cannot send streams: there it throws.
   */
  async import(memories: Iterable<MemoryFields>, fields: Omit<Fields<typeof ImportRequestSchema>, "memories"> = {}, options?: CallOptions): Promise<ImportResponse> {
    checkFields(ImportRequestSchema, fields);
    const total = create(ImportResponseSchema);
    let sent = 0;
    const within = { ...options, timeoutMs: options?.timeoutMs ?? importTimeoutMs };
    for (const batch of batches(memories)) {
      const request = create(ImportRequestSchema, joined(fields, { memories: batch }));
      const done = await call((message: typeof request, o) => this.memories.import(once(message), o), request, within).catch((err) => { throw after(err, sent); });
      sent += batch.length;
      total.stored += done.stored;
      total.unchanged += done.unchanged;
      total.ids.push(...done.ids);
      total.revisionToken = done.revisionToken || total.revisionToken;
    }
    return total;
  }

  /** Yields every memory of a namespace, oldest first. Without a time it is not bounded. The memories before an error are not all. */
  async *export(namespace: string, options?: CallOptions): AsyncGenerator<Memory> {
    const ended = new AbortController();
    const signal = AbortSignal.any([ended.signal, ...(options?.signal ? [options.signal] : [])]);
    try {
      for await (const response of this.memories.export(made(ExportRequestSchema, { namespace }), { ...options, timeoutMs: whole(options?.timeoutMs ?? 0), signal })) {
        yield* response.memories;
      }
    } catch (reason) {
      throw from(reason);
    } finally {
      ended.abort(); // the gateway goes on sending to a caller who has left the loop
    }
  }

  /** Returns what is known of a namespace. It throws NotFound if nothing was ever stored there. */
  async namespace(namespace: string, statistics = false, options?: CallOptions): Promise<GetNamespaceResponse> {
    return read(this.memories.getNamespace, made(GetNamespaceRequestSchema, { namespace, statistics }), options);
  }

  /** Yields the namespaces by name. The time bounds each page. */
  async *namespaces(prefix = "", options?: CallOptions): AsyncGenerator<ListNamespacesResponse_Namespace> {
    const request = made(ListNamespacesRequestSchema, { prefix });
    do {
      const page = await read(this.memories.listNamespaces, request, options);
      yield* page.namespaces;
      request.pageToken = page.nextPageToken;
    } while (request.pageToken !== "");
  }

  /** Renames a namespace with everything in it. Returns how many memories moved. */
  async renameNamespace(namespace: string, newName: string, options?: CallOptions): Promise<bigint> {
    return (await call(this.memories.renameNamespace, made(RenameNamespaceRequestSchema, { namespace, newName }), options)).memories;
  }

  /** Forgets a namespace with everything in it. Returns how many memories there were. */
  async deleteNamespace(namespace: string, options?: CallOptions): Promise<bigint> {
    return (await call(this.memories.deleteNamespace, made(DeleteNamespaceRequestSchema, { namespace }), options)).forgotten;
  }

  /**
   * Returns when no index of a namespace has anything pending. After `timeoutMs`, a minute unless given, it throws DeadlineExceeded, or
   * Unavailable if an index cannot be asked until then.
   */
  async waitIndexed(namespace: string, { timeoutMs = 60_000, signal }: CallOptions = {}): Promise<void> {
    const request = made(RecallServiceGetIndexStatusRequestSchema, { namespace });
    const end = Date.now() + timeoutMs;
    const behind = new TriskeleError(Code.DeadlineExceeded, `the indexes of ${namespace} have not caught up`);
    let late = behind;
    for (let pause = 10; ; pause = Math.min(2 * pause, 500)) {
      try {
        const { legs } = await read(this.recalls.getIndexStatus, request, { timeoutMs: Math.max(1, Math.min(defaultTimeoutMs, end - Date.now())), signal });
        const silent = legs.find((leg) => leg.error !== "");
        if (silent) {
          throw new TriskeleError(Code.Unavailable, `the index of the ${silent.leg} leg cannot be asked: ${silent.error}`);
        }
        if (legs.every((leg) => !leg.status?.pending)) {
          const dead = legs.find((leg) => leg.status?.dead)?.status?.dead;
          if (dead) {
            throw new TriskeleError(Code.Unknown, `${dead} memories of namespace ${namespace} could not be indexed; the server's log has the cause`);
          }
          return;
        }
        late = behind;
      } catch (err) {
        if (!(err instanceof TriskeleError) || (err.code !== Code.Unavailable && err.code !== Code.DeadlineExceeded)) {
          throw err;
        }
        late = err.code === Code.Unavailable ? err : late; // the last call may have too little time to say why
      }
      if (Date.now() + pause >= end) {
        throw late;
      }
      await new Promise((resume) => setTimeout(resume, pause));
    }
  }
}

/** Adds the arguments of a call to its fields. It throws InvalidArgument if a field is given as both and differs: one would be dropped. */
function joined<Given extends object, Args extends object>(fields: Given, args: Args, path = ""): Given & Args {
  const given = (fields ?? {}) as Record<string, string | unknown[] | undefined>;
  const twice = Object.entries(args).find(([name, value]) => given[name]?.length && given[name] !== value)?.[0];
  if (twice !== undefined) {
    throw invalid(path + twice, "must be given once: it is an argument of the call");
  }
  return { ...fields, ...args };
}

/** Makes a request and throws InvalidArgument if no gateway would accept it. */
function made<Desc extends DescMessage>(desc: Desc, init: MessageInitShape<Desc>): MessageShape<Desc> {
  checkFields(desc, init);
  const message = create(desc, init);
  check(desc, message);
  return message;
}

/** Yields memories in groups that fit a message of an import. It throws InvalidArgument at one that no gateway would accept. */
function* batches(memories: Iterable<MemoryFields>): Generator<Memory[]> {
  let batch: Memory[] = [], bytes = 0, number = 0;
  for (const fields of memories) {
    const path = `memories[${number++}]`;
    checkFields(MemorySchema, fields, path);
    const memory = create(MemorySchema, fields);
    check(MemorySchema, memory, path);
    const more = toBinary(MemorySchema, memory).length;
    if (batch.length === batchSize || (batch.length > 0 && bytes + more > batchBytes)) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(memory);
    bytes += more;
  }
  if (batch.length > 0) {
    yield batch;
  }
}

type Method<I, O> = (request: I, options: CallOptions) => Promise<O>;

async function call<I, O>(method: Method<I, O>, request: I, options: CallOptions = {}): Promise<O> {
  try {
    return await method(request, { ...options, timeoutMs: whole(options.timeoutMs ?? defaultTimeoutMs) });
  } catch (reason) {
    throw from(reason);
  }
}

/** Returns a time as gRPC sends it. */
function whole(ms: number): number {
  return Math.min(longestMs, Math.ceil(ms));
}

/** Calls up to three times, within the time of one call, while the gateway cannot be reached. */
async function read<I, O>(method: Method<I, O>, request: I, options: CallOptions = {}): Promise<O> {
  const end = Date.now() + (options.timeoutMs ?? defaultTimeoutMs);
  for (let attempt = 1, pause = 50; ; attempt++, pause *= 2) {
    try {
      return await call(method, request, { ...options, timeoutMs: Math.max(1, end - Date.now()) });
    } catch (err) {
      const again = err instanceof TriskeleError && err.code === Code.Unavailable && attempt < attempts;
      if (!again || Date.now() + pause >= end || options.signal?.aborted) {
        throw err;
      }
      await new Promise((resume) => setTimeout(resume, pause * (0.8 + 0.4 * Math.random())));
    }
  }
}

async function* once<T>(item: T): AsyncGenerator<T> {
  yield item;
}
