/** Connects from a browser, or wherever fetch is, by gRPC-Web. The gateway has to allow the page's origin. */
import { Code, ConnectError } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { Client } from "./client.js";
import { type ConnectOptions, interceptors } from "./options.js";

export * from "./index.js";

/** Prepares calls to a gateway, for instance `http://127.0.0.1:7400`. */
export function connect(address: string, options: ConnectOptions = {}): Client {
  return new Client(createGrpcWebTransport({ baseUrl: address, interceptors: interceptors(address, options), fetch: reach }));
}

/** Is fetch, but a gateway that it cannot reach is unavailable and not an error without a code. */
async function reach(...request: Parameters<typeof fetch>): Promise<Response> {
  try {
    return await fetch(...request);
  } catch (reason) {
    throw reason instanceof TypeError ? new ConnectError(reason.message, Code.Unavailable, undefined, undefined, reason) : reason;
  }
}
