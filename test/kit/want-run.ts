import { parseRegistration } from '@baton/core/run'
import type { Nats } from '@baton/store/connect'
import { register } from '@baton/store/registry'

/** Registers a run. Where its body names no agent, nobody is at the address of it. */
export async function wantRun(nats: Nats, run: string, body: Readonly<Record<string, unknown>> = {}): Promise<void> {
  const spec = parseRegistration(run, { url: 'http://127.0.0.1:9/never', ...body })
  if (!spec.ok) throw new Error(spec.reason)
  await register(nats, spec.value)
}
