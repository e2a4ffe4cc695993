import { headers, type MsgHdrs } from '@nats-io/nats-core'
import type { RunEvent, StoredEvent } from '@baton/core/event'
import { RawHeaders } from './raw-headers.ts'

/** A byte order mark at the start of an event's data is data. */
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })

/** Header names of an event message (nats/README.md, "An event"). */
export const HEADER = {
  index: 'Baton-Index',
  epoch: 'Baton-Epoch',
  job: 'Baton-Job',
  type: 'Baton-Type',
  name: 'Baton-Event',
  upstreamId: 'Baton-Upstream-Id',
  upstreamOffset: 'Baton-Upstream-Offset',
  ordinal: 'Baton-Ordinal',
  time: 'Baton-Time',
} as const

/** An upstream id longer than this is not kept: headers are for small things. */
export const MAX_UPSTREAM_ID_BYTES = 1024

/**
 * NATS trims blanks at the edges of header values and forbids CR and LF, so what an agent chose is percent-encoded:
 * everything but visible ASCII, the percent sign itself, and blanks at the edges.
 */
export function encodeHeader(text: string): string {
  const escaped = text.toWellFormed().replace(/[^\x20-\x24\x26-\x7e]+/g, encodeURIComponent)
  return escaped.replace(/^ +| +$/g, (blanks) => '%20'.repeat(blanks.length))
}

/** A header written by somebody else may hold anything; what is not percent-encoding is taken as it stands. */
export function decodeHeader(text: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

export function eventHeaders(event: RunEvent): MsgHdrs {
  const map = headers()
  map.set(HEADER.index, String(event.index))
  map.set(HEADER.epoch, String(event.epoch))
  if (event.job !== null) map.set(HEADER.job, event.job)
  map.set(HEADER.type, encodeHeader(event.type))
  if (event.name !== null) map.set(HEADER.name, encodeHeader(event.name))
  if (event.upstreamId !== null) map.set(HEADER.upstreamId, encodeHeader(event.upstreamId))
  if (event.upstreamOffset !== null) map.set(HEADER.upstreamOffset, String(event.upstreamOffset))
  if (event.ordinal !== null) map.set(HEADER.ordinal, String(event.ordinal))
  map.set(HEADER.time, event.time)
  return map
}

/** A message with its headers, as nats.js parses them or as they came. */
export type EventMessage = { readonly data: Uint8Array; readonly headers?: MsgHdrs | RawHeaders | null | undefined }

/** Null for a message that is not one of our events: a marker, or something an operator published by hand. */
export function decodeEvent(run: string, sequence: number, message: EventMessage): StoredEvent | null {
  const map = message.headers
  if (map === undefined || map === null) return null
  const find = (name: string): string | null =>
    map instanceof RawHeaders ? map.find(name) : map.has(name) ? map.get(name) : null
  const text = (name: string): string | null => {
    const value = find(name)
    return value === null ? null : decodeHeader(value)
  }
  const number = (name: string): number | null => {
    const value = find(name)
    return value === null ? null : Number(value)
  }
  const index = number(HEADER.index)
  if (index === null || !Number.isSafeInteger(index) || index < 1) return null
  return {
    run,
    sequence,
    index,
    epoch: number(HEADER.epoch) ?? 0,
    job: text(HEADER.job),
    type: text(HEADER.type) ?? 'message',
    name: text(HEADER.name),
    upstreamId: text(HEADER.upstreamId),
    upstreamOffset: number(HEADER.upstreamOffset),
    ordinal: number(HEADER.ordinal),
    time: find(HEADER.time) ?? '',
    data: utf8.decode(message.data),
  }
}
