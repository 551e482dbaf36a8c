/** Connects from Node.js by gRPC. */
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Client } from "./client.js";
import { type ConnectOptions, interceptors } from "./options.js";

export * from "./index.js";

/** `ca` is the PEM of certificate authorities, instead of those that Node.js trusts. */
export interface NodeOptions extends ConnectOptions {
  ca?: string | Uint8Array;
}

/** Prepares a connection to a gateway, for instance `http://127.0.0.1:7400`. While the gateway is down, calls throw Unavailable. */
export function connect(address: string, options: NodeOptions = {}): Client {
  return new Client(createGrpcTransport({
    baseUrl: address,
    interceptors: interceptors(address, options),
    pingIntervalMs: 10_000,
    pingTimeoutMs: 10_000,
    readMaxBytes: 96 << 20,
    nodeOptions: options.ca === undefined ? undefined : { ca: options.ca as string },
  }));
}
