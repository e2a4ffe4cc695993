import { BatonError, isCode } from '@baton/core/errors'
import { END } from '@baton/core/event'
import type { RunStatus } from '@baton/core/records'
import { formatRunRecord, parseRunRecord, sameRegistration, type Parsed, type RunSpec } from '@baton/core/run'
import { confirmKey, readKey, readKeyAtLeader, writeKey, type Entry } from './bucket.ts'
import type { Nats } from './connect.ts'
import { BUCKET } from './names.ts'
import { isNewestOwner } from './write-log.ts'
import { readHead } from './read-log.ts'

/**
 * What is wanted (KV `runs`: people, services and the edge write it) and what is (KV `status`: the owner of a run
 * writes it). Keeping them apart is what lets anybody ask for a run with one `nats kv put`.
 */

export type Registered = { readonly revision: number; readonly spec: Parsed<RunSpec> }

/** The registration of a run; null only when the leader says there is none. */
export async function readRegistration(nats: Nats, run: string): Promise<Registered | null> {
  let entry = await readKey(nats, BUCKET.runs, run)
  if (entry.value === null) entry = await confirmKey(nats, BUCKET.runs, run)
  return entry.value === null ? null : { revision: entry.revision, spec: parseRunRecord(run, entry.value) }
}

/**
 * Registers a run. `created` false: the same registration was there already. Throws `conflict` when the id stands for
 * something else, or for a run that has ended: an id means one run for ever.
 */
export async function register(nats: Nats, spec: RunSpec): Promise<{ created: boolean }> {
  for (;;) {
    const entry = await readKeyAtLeader(nats, BUCKET.runs, spec.run)
    if (await isOver(nats, spec.run)) throw new BatonError('conflict', `run ${spec.run} has ended; choose another id`)
    if (entry.value !== null) {
      const there = parseRunRecord(spec.run, entry.value)
      if (there.ok && sameRegistration(there.value, spec)) return { created: false }
      throw new BatonError('conflict', `run ${spec.run} is registered with another body`)
    }
    try {
      await writeKey(nats, BUCKET.runs, spec.run, formatRunRecord(spec), { expected: entry.revision })
      return { created: true }
    } catch (error) {
      // Somebody registered it between the look and the write: look again.
      if (!isCode(error, 'conflict')) throw error
    }
  }
}

/** Has it ended? The log is the first to know, and who follows it hears of the end before its status says so. */
async function isOver(nats: Nats, run: string): Promise<boolean> {
  const [status, head] = await Promise.all([readStatus(nats, run), readHead(nats, run, 'leader')])
  return status?.state === 'ended' || head?.type === END
}

/**
 * Writes the wish to cancel into the registration. False where nobody has begun the run and its registration is not valid,
 * or gone; one that was begun and whose registration is gone is being cancelled already. The registration of an ended run
 * is left as it is: written anew it would live for ever, and ask for the run again when its end is forgotten.
 */
export async function requestCancel(nats: Nats, run: string): Promise<boolean> {
  for (;;) {
    const entry = await readKeyAtLeader(nats, BUCKET.runs, run)
    const status = await readStatus(nats, run)
    if (status?.state === 'ended') return true
    if (entry.value === null) return status !== null
    const spec = parseRunRecord(run, entry.value)
    if (!spec.ok && status === null) return false
    if (spec.ok && spec.value.cancel) return true
    try {
      // What is not valid harms nobody: a run that somebody has must be able to end.
      const text = spec.ok ? formatRunRecord({ ...spec.value, cancel: true }) : JSON.stringify({ run, cancel: true })
      await writeKey(nats, BUCKET.runs, run, text, { expected: entry.revision })
      return true
    } catch (error) {
      if (!isCode(error, 'conflict')) throw error
    }
  }
}

/** Lets the registration of an ended run live as long as its log, and no longer, whoever writes to it meanwhile. */
export async function expireRegistration(nats: Nats, run: string, ttlMs: number): Promise<void> {
  for (;;) {
    const entry = await readKeyAtLeader(nats, BUCKET.runs, run)
    if (entry.value === null) return
    try {
      await writeKey(nats, BUCKET.runs, run, entry.value, { expected: entry.revision, ttlMs })
      return
    } catch (error) {
      if (!isCode(error, 'conflict')) throw error
    }
  }
}

/** Null for a key that is gone and for a value that is not ours. */
export function parseStatus(entry: Entry | undefined): RunStatus | null {
  if (entry === undefined || entry.value === null) return null
  try {
    const value = JSON.parse(entry.value) as Partial<RunStatus> | null
    return isStatus(value) ? value : null
  } catch {
    return null
  }
}

/** Anybody may have put anything there by hand; one half of a status is none. */
function isStatus(value: Partial<RunStatus> | null): value is RunStatus {
  if (value?.state !== 'running' && value?.state !== 'ended') return false
  const { state, end, epoch, jobs } = value
  const ended = typeof end?.reason === 'string'
  if (ended !== (state === 'ended') || !Number.isSafeInteger(epoch)) return false
  return Array.isArray(jobs) && jobs.every((job) => typeof job?.job === 'string' && typeof job.state === 'string')
}

export async function readStatus(nats: Nats, run: string): Promise<RunStatus | null> {
  return parseStatus(await readKeyAtLeader(nats, BUCKET.status, run))
}

/**
 * Writes the status of a run for the owner of `status.epoch`. A status of a later epoch, or of an ended run when this
 * one says running, is left as it is: a zombie's late word must not win. Throws `lost` then.
 */
export async function writeStatus(nats: Nats, run: string, status: RunStatus, ttlMs?: number): Promise<void> {
  for (;;) {
    const entry = await readKeyAtLeader(nats, BUCKET.status, run)
    const there = parseStatus(entry)
    if (there !== null && (await isOutdone(nats, run, status, there))) {
      throw new BatonError('lost', `run ${run}: its status is of epoch ${there.epoch}, not ${status.epoch}`)
    }
    try {
      const write = ttlMs === undefined ? { expected: entry.revision } : { expected: entry.revision, ttlMs }
      await writeKey(nats, BUCKET.status, run, JSON.stringify(status), write)
      return
    } catch (error) {
      if (!isCode(error, 'conflict')) throw error
    }
  }
}

/**
 * Is what stands there a later word than this? Epochs are sequences of the log: where it was made anew they have begun
 * again, and who owns the run is what its newest owner record says.
 */
async function isOutdone(nats: Nats, run: string, status: RunStatus, there: RunStatus): Promise<boolean> {
  if (there.state === 'ended' && status.state === 'running') return true
  return there.epoch > status.epoch && !(await isNewestOwner(nats, { run, epoch: status.epoch }))
}
