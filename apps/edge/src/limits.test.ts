import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { acceptsStream, isEventSource } from './accepts.ts'
import { readAsked } from './asked.ts'
import { clientAddress, neighbourhood, trustedProxies } from './client-address.ts'
import { Connections } from './connections.ts'
import { Rates } from './rates.ts'
import { Pacer } from './pacer.ts'
import { busyMs, reconnectMs } from './retry.ts'

describe('opens', () => {
  test('so many a second for each client, and no client locks another out', () => {
    const opens = new Rates(3, 10)
    const taken = (client: string, nowMs: number, tries: number) =>
      Array.from({ length: tries }, () => opens.take(client, nowMs)).filter(Boolean).length
    expect(taken('loop', 0, 1000)).toBe(3)
    expect(taken('other', 0, 5)).toBe(3)
    expect(taken('loop', 1000, 1000)).toBe(3)
    expect(taken('loop', 1500, 1000)).toBe(1)
  })

  test('so many a second for all together', () => {
    const opens = new Rates(0, 5)
    const taken = Array.from({ length: 20 }, (_, at) => opens.take(`client-${at}`, 0)).filter(Boolean)
    expect(taken).toHaveLength(5)
    expect(opens.take('late', 200)).toBe(true)
  })

  test('0 is no limit', () => {
    const opens = new Rates(0, 0)
    expect(Array.from({ length: 5000 }, () => opens.take('one', 0)).every(Boolean)).toBe(true)
  })
})

describe('connections', () => {
  test('so many for each client; one that leaves makes room, once', () => {
    const connections = new Connections(2)
    const [one, two] = [connections.enter('a'), connections.enter('a')]
    expect(connections.enter('a')).toBeNull()
    expect(connections.enter('b')).not.toBeNull()
    one?.()
    one?.()
    expect(connections.enter('a')).not.toBeNull()
    expect(connections.enter('a')).toBeNull()
    two?.()
    expect(connections.enter('a')).not.toBeNull()
  })

  test('of clients that have left nothing is kept', () => {
    const connections = new Connections(0)
    const leaves = Array.from({ length: 1000 }, (_, at) => connections.enter(`client-${at % 100}`))
    expect(connections.clients).toBe(100)
    for (const leave of leaves) leave?.()
    expect(connections.clients).toBe(0)
  })
})

describe('the wait before a reconnect', () => {
  test('is short with few clients, and grows with their number to a bound', () => {
    expect([reconnectMs(10, 0), reconnectMs(10, 0.999)]).toEqual([250, 500])
    expect([reconnectMs(5000, 0), reconnectMs(5000, 0.9999)]).toEqual([250, 3000])
    expect(reconnectMs(400, 0.999)).toBeLessThan(1400)
  })

  test('of one that could not be served is spread', () => {
    for (const reason of ['limit', 'draining', 'unavailable'] as const) {
      expect(busyMs(reason, 0)).toBeGreaterThanOrEqual(250)
      expect(busyMs(reason, 0.999)).toBeGreaterThan(busyMs(reason, 0))
    }
  })
})

describe('Accept', () => {
  test.each([undefined, '', '*/*', 'text/*', 'text/event-stream', 'application/json, text/event-stream;q=0.1'])(
    '%s takes a stream',
    (accept) => expect(acceptsStream(accept)).toBe(true),
  )
  test.each(['application/json', 'text/html', 'text/event-stream;q=0, */*', 'text/event-stream; q=0'])(
    '%s takes none',
    (accept) => expect(acceptsStream(accept)).toBe(false),
  )
  test('an EventSource is what asks for a stream and does not say that it is something better', () => {
    expect(isEventSource('text/event-stream', undefined)).toBe(true)
    expect(isEventSource('text/event-stream', 'cli')).toBe(false)
    expect(isEventSource('*/*', undefined)).toBe(false)
  })
})

describe('the position asked for', () => {
  test('is the header, else the query, else from', () => {
    expect(readAsked('5-1', '6-2', 'now')).toMatchObject({ kind: 'id', position: { sequence: 5, mark: 1 } })
    expect(readAsked(' ', '6-2', 'now')).toMatchObject({ kind: 'id', text: '6-2' })
    expect(readAsked('', undefined, 'now')).toEqual({ kind: 'now' })
    expect(readAsked(undefined, undefined, undefined)).toEqual({ kind: 'start' })
    expect(readAsked(undefined, undefined, '7')).toEqual({ kind: 'index', index: 7 })
    expect(readAsked(undefined, undefined, '-7')).toEqual({ kind: 'last', count: 7 })
  })

  test('not of the form is an id too, and nobody’s', () => {
    expect(readAsked('nonsense', undefined, undefined)).toEqual({ kind: 'id', text: 'nonsense', position: null })
  })

  test('a header’s bytes are UTF-8', () => {
    const header = Buffer.from('é', 'utf8').toString('latin1')
    expect(readAsked(header, undefined, undefined)).toMatchObject({ text: 'é' })
  })

  test.each(['', 'soon', '1.5', '--1', '+1', '1e3'])('from=%s is malformed, whatever else is given', (from) => {
    expect(() => readAsked('5-1', undefined, from)).toThrow('from:')
  })
})

describe('who asks', () => {
  const isTrusted = trustedProxies(['10.0.0.0/8', '::1', '192.0.2.7'])

  test('is the peer, unless that is a trusted proxy', () => {
    expect(clientAddress('203.0.113.5', '198.51.100.1', isTrusted)).toBe('203.0.113.5')
    expect(clientAddress('10.1.2.3', '198.51.100.1', isTrusted)).toBe('198.51.100.1')
    expect(clientAddress('::ffff:10.1.2.3', '198.51.100.1, 10.9.9.9', isTrusted)).toBe('198.51.100.1')
  })

  test('is an address, whether a proxy adds its port or not', () => {
    expect(clientAddress('10.1.2.3', '198.51.100.1:50123', isTrusted)).toBe('198.51.100.1')
    expect(clientAddress('::1', '[2001:db8::7]:443, 10.9.9.9:80', isTrusted)).toBe('2001:db8::7')
    expect(clientAddress('::1', '2001:db8::7', isTrusted)).toBe('2001:db8::7')
  })

  test('is never what the client wrote before its proxy', () => {
    expect(clientAddress('::1', 'forged, 198.51.100.1', isTrusted)).toBe('198.51.100.1')
    expect(clientAddress('::1', 'forged', isTrusted)).toBe('::1')
    expect(clientAddress('::1', undefined, isTrusted)).toBe('::1')
  })

  test('is one address however it is written', () => {
    const spellings = ['2001:db8::abcd', '2001:DB8:0:0:0:0:0:ABCD', '2001:0db8::abcd', '[2001:db8::abcd]:443']
    for (const spelling of spellings) expect(clientAddress('::1', spelling, isTrusted)).toBe('2001:db8::abcd')
    for (const zone of ['eth0', 'eth1']) expect(clientAddress('::1', `fe80::1%${zone}`, isTrusted)).toBe('fe80::1')
    expect(clientAddress('::ffff:0a01:0203', '::ffff:198.51.100.1', isTrusted)).toBe('198.51.100.1')
  })

  test('is limited with its neighbours, where one of them can have any of their addresses', () => {
    const all = Array.from({ length: 1000 }, (_, at) => neighbourhood(`2001:db8:0:7::${at.toString(16)}`))
    expect(new Set(all)).toEqual(new Set(['2001:db8:0:7::/64']))
    expect(neighbourhood('2001:db8:0:8::1')).toBe('2001:db8:0:8::/64')
    expect(neighbourhood('::1')).toBe('0:0:0:0::/64')
    for (const whole of ['198.51.100.1', 'sub_2001:db8::1', '']) expect(neighbourhood(whole)).toBe(whole)
  })

  test.each(['nonsense', '10.0.0.0/33', '10.0.0.0/-1', '10.0.0/8'])('%s is no range', (entry) => {
    expect(() => trustedProxies([entry])).toThrow(entry)
  })
})

describe('the pacer', () => {
  test('flushes idle at once and each thing once, however often it was marked', async () => {
    const flushed: string[] = []
    const pacer = new Pacer(() => undefined)
    const [one, two] = ['one', 'two'].map((name) => ({ flush: () => void flushed.push(name) }))
    if (one === undefined || two === undefined) throw new Error('two things')
    for (const thing of [one, two, one]) pacer.mark(thing)
    await new Promise(setImmediate)
    expect(flushed).toEqual(['one', 'two'])
  })

  test('rests after a flush as long as it took', async () => {
    const tookMs: number[] = []
    const pacer = new Pacer((ms) => tookMs.push(ms))
    const slow = {
      flush: () => {
        const untilMs = performance.now() + 10
        while (performance.now() < untilMs);
      },
    }
    pacer.mark(slow)
    await new Promise(setImmediate)
    expect(tookMs).toHaveLength(1)
    pacer.mark(slow)
    await new Promise(setImmediate)
    expect(tookMs).toHaveLength(1)
    await delay(60)
    expect(tookMs).toHaveLength(2)
  })
})
