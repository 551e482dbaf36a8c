import type { Interceptor } from "@connectrpc/connect";

/** `token` is shown with each call. It needs https unless the gateway is on this machine. Interceptors are Connect's. */
export interface ConnectOptions {
  token?: string;
  interceptors?: Interceptor[];
}

/** Returns the interceptors of a transport. It throws if a token would be sent to another machine in plain text. */
export function interceptors(address: string, { token, interceptors = [] }: ConnectOptions): Interceptor[] {
  if (token === undefined || token === "") {
    return interceptors;
  }
  const { protocol, hostname } = new URL(address);
  const here = hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
  if (protocol !== "https:" && !here) {
    throw new TypeError("a token is sent to another machine only with https");
  }
  const show: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
  return [...interceptors, show];
}
