import type { JobSpec } from '@baton/core/run'
import type { AgentConnection, Emitted, JobEmission } from '../kit/history.ts'
import type { Chance } from './chance.ts'

/** What an agent gives to one who comes back. */
type Kind = 'goes-on' | 'starts-over' | 'window' | 'nothing'

const WINDOW = 6

/** Which events have an id. */
const idPatterns: readonly ((at: number) => boolean)[] = [
  () => true,
  () => true,
  () => false,
  (at) => at % 3 === 2,
  (at) => at % 4 === 0,
]

/** An agent and how it is registered. */
type Sort = { readonly kind: Kind; readonly resume: JobSpec['resume']; readonly has: (at: number) => boolean }

/** One of the kinds that Baton promises something for; `trimmed`: the log forgets. */
function sortOf(chance: Chance, trimmed: boolean): Sort {
  const has = chance.of(idPatterns)
  const kind = chance.of<Kind>(['goes-on', 'goes-on', 'starts-over', 'starts-over', 'window', 'nothing'])
  if (kind === 'goes-on') return { kind, resume: chance.of(['auto', 'last-event-id']), has }
  if (kind === 'nothing') return { kind, resume: 'none', has }
  // A window longer than what is kept of a job is not recognised; nor is, by `auto`, an un-ided first event once the
  // log has lost it: the README says so.
  if (kind === 'window') return { kind, resume: 'replay', has: trimmed ? () => false : has }
  return { kind, resume: trimmed && !has(0) ? 'replay' : chance.of(['auto', 'replay']), has }
}

export type Connection = {
  /** The next event, null where nothing more is emitted yet. */
  readonly next: () => Emitted | null
  readonly close: () => void
  isCut: boolean
}

/** A job's agent. What it emits is known from the start; how far it has come is a matter of time. */
export class AgentModel {
  readonly job: string
  readonly spec: Pick<JobSpec, 'job' | 'resume'>
  readonly open = new Set<Connection>()
  readonly #kind: Kind
  readonly #events: readonly Emitted[]
  readonly #connections: { openedAtMs: number; closedAtMs: number | null; firstEvent: number | null }[] = []
  #emitted = 0

  constructor(job: string, chance: Chance, options: { events: number; trimmed: boolean }) {
    const { kind, resume, has } = sortOf(chance, options.trimmed && options.events > 0)
    this.job = job
    this.#kind = kind === 'window' && options.trimmed ? 'starts-over' : kind
    this.spec = { job, resume }
    this.#events = Array.from({ length: options.events }, (_, at) => ({
      id: has(at) ? `${job}${at}` : null,
      name: at === options.events - 1 ? 'done' : at % 2 === 0 ? 'output' : null,
      data: `${job} ${at}`,
    }))
  }

  get over(): boolean {
    return this.#emitted === this.#events.length
  }

  emit(): void {
    if (!this.over) this.#emitted++
  }

  /** Null: nothing more will come. Only who replays nothing has to say so, to one who missed its terminal event. */
  connect(lastEventId: string | null, now: number): Connection | null {
    if (this.#kind === 'nothing' && this.over) return null
    const first = this.#first(lastEventId)
    const served = { openedAtMs: now, closedAtMs: null as number | null, firstEvent: null as number | null }
    this.#connections.push(served)
    let next = first
    const connection: Connection = {
      next: () => {
        if (next >= this.#emitted) return null
        served.firstEvent ??= next
        return this.#events[next++] ?? null
      },
      close: () => {
        this.open.delete(connection)
      },
      isCut: false,
    }
    this.open.add(connection)
    this.#closing.set(connection, served)
    return connection
  }

  readonly #closing = new Map<Connection, { closedAtMs: number | null }>()

  /** Notes what was closed since: by whom, and that it was, an agent learns from its socket. */
  look(now: number): void {
    for (const [connection, served] of this.#closing) {
      if (this.open.has(connection)) continue
      served.closedAtMs = now
      this.#closing.delete(connection)
    }
  }

  #first(lastEventId: string | null): number {
    if (this.#kind === 'starts-over') return 0
    if (this.#kind === 'window') return Math.max(0, this.#emitted - WINDOW)
    if (this.#kind === 'nothing') return this.#emitted
    return lastEventId === null ? 0 : this.#events.findIndex(({ id }) => id === lastEventId) + 1
  }

  emission(): JobEmission {
    const replays = this.#kind === 'nothing' ? 'none' : this.#kind === 'window' ? 'window' : 'all'
    const connections: readonly AgentConnection[] = this.#connections
    return { job: this.job, replays, events: this.#events.slice(0, this.#emitted), connections }
  }
}
