/** Continues the caller's OpenTelemetry trace in the gateway: pass `traced` to connect as an interceptor. */
import { context, propagation } from "@opentelemetry/api";
import type { Interceptor } from "@connectrpc/connect";

export const traced: Interceptor = (next) => (request) => {
  propagation.inject(context.active(), request.header, { set: (header, name, value) => header.set(name, value) });
  return next(request);
};
