import { pause } from '@baton/service/sleep'

/** How many runs live at a time: enough to see them spread over the relays. */
const RUNS = 3
const LOOK_MS = 1000
/** How long the end of the demo's runs is waited for: a person has pressed Ctrl-C. */
const END_MS = 3000
const END_LOOK_MS = 50

export type DemoDeps = {
  readonly agentUrl: string
  /** Any of them will do; one may be dead just now. */
  readonly edgeUrls: readonly string[]
  /** The first part of every run's id: another for each start, for an id means one run for ever. */
  readonly prefix: string
  /** Shown to edges that ask for one. */
  readonly token: string | null
}

/**
 * Keeps a few runs of the demo agent registered, a new one for each that ends, until the signal aborts. It uses the
 * same routes as anybody else. `onFirst` hears the ids it begins with; `onRefused`, once, that it may not begin. Resolves
 * with those that live then.
 */
export async function keepDemo(
  deps: DemoDeps,
  onFirst: (runs: string[]) => void,
  onRefused: () => void,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  let next = 1
  const live = new Set<string>()
  for (let told = false, refused = false; !signal.aborted; await pause(LOOK_MS, signal)) {
    for (const run of live) if (await hasEnded(deps, run, signal)) live.delete(run)
    while (live.size < RUNS && !signal.aborted) {
      const run = `${deps.prefix}-${next}`
      // A refusal or no answer: the edges are still starting, or NATS is. The next round tries again.
      const status = await register(deps, run, signal)
      if ((status === 401 || status === 403) && !refused) {
        refused = true
        onRefused()
      }
      if (status !== 200 && status !== 201) break
      live.add(run)
      next++
    }
    if (told || live.size < RUNS) continue
    told = true
    onFirst([...live])
  }
  return live
}

/**
 * Ends the demo's runs while there is somebody to end them: kept in the data, they would be tailed again at the next start,
 * from an agent that is gone or listens elsewhere. A wish that nobody carries out in time is kept, and carried out then.
 */
export async function endDemo(deps: DemoDeps, runs: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(END_MS)])
  await Promise.all(
    [...runs].map(async (run) => {
      const answer = await ask(deps, `/runs/${run}/cancel`, limited, { method: 'POST' })
      await answer?.body?.cancel()
      while (!limited.aborted && !(await hasEnded(deps, run, limited))) await pause(END_LOOK_MS, limited)
    }),
  )
}

async function register(deps: DemoDeps, run: string, signal: AbortSignal): Promise<number | null> {
  const { agentUrl } = deps
  const body = JSON.stringify({
    run,
    url: demoStream(agentUrl, run),
    cancel: `${agentUrl}/jobs/${run}/cancel`,
    labels: { demo: 'yes' },
  })
  const answer = await ask(deps, '/runs', signal, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  await answer?.body?.cancel()
  return answer?.status ?? null
}

async function hasEnded(deps: DemoDeps, run: string, signal: AbortSignal): Promise<boolean> {
  const answer = await ask(deps, `/runs/${run}`, signal)
  if (answer === null) return false
  if (answer.status === 404) return true
  const body = (await answer.json().catch(() => null)) as { state?: string } | null
  return body?.state === 'ended'
}

/** The first answer any edge gives; null when none does. */
async function ask(
  { edgeUrls, token }: DemoDeps,
  path: string,
  signal: AbortSignal,
  init: { method?: 'POST'; headers?: Readonly<Record<string, string>>; body?: string } = {},
): Promise<Response | null> {
  for (const url of edgeUrls) {
    try {
      const response = await fetch(`${url}${path}`, {
        ...init,
        headers: { ...init.headers, ...(token === null ? {} : { authorization: `Bearer ${token}` }) },
        signal: AbortSignal.any([signal, AbortSignal.timeout(3000)]),
      })
      if (response.status < 500) return response
      await response.body?.cancel()
    } catch {
      if (signal.aborted) return null
    }
  }
  return null
}

/** Where the demo agent streams the events of a run. */
export const demoStream = (agentUrl: string, run: string): string => `${agentUrl}/jobs/${run}/stream`
