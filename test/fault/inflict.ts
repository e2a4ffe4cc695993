import { writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '../kit/eventually.ts'
import type { NatsCluster, NodeName } from '../kit/nats-cluster.ts'
import type { NatsServer } from '../kit/nats-server.ts'
import type { AgentJob } from '../kit/agents.ts'
import type { App } from '../kit/process.ts'
import type { Direction } from '../kit/proxy.ts'
import { leaderFirst } from './leader.ts'
import type { Network } from './network.ts'
import { nameOf, type Fault } from './schedule.ts'
import { DOORS, type Member, type World } from './world.ts'

/** A fault as it happened. */
export type Inflicted = {
  readonly name: string
  readonly fault: Fault
  readonly fromMs: number
  /** When it was mended; a fault that ends by itself ends at once. */
  toMs: number
  /** The relays and edges it hurt, by name. */
  readonly hurt: readonly string[]
}

/** Inflicts faults on a world and mends them; what was asked of a process goes one after another. */
export class Hurt {
  readonly done: Inflicted[] = []
  readonly #world: World
  readonly #jobs: readonly AgentJob[]
  readonly #turns = new Map<string, Promise<void>>()

  constructor(world: World, jobs: readonly AgentJob[]) {
    this.#world = world
    this.#jobs = jobs
  }

  inflict(fault: Fault): void {
    const { relays, edges, disk } = this.#world
    const job = 'job' in fault ? this.#jobs[fault.job % this.#jobs.length] : undefined
    switch (fault.kind) {
      case 'cut-agent':
        return this.#turn('agents', fault, [], async () => job?.cut())
      case 'upstream':
        return this.#turn('agents', fault, [], async () => {
          await job?.answerNext(fault.answers)
          await job?.cut()
        })
      case 'half-open-agents':
        return this.#turn('agents', fault, [], async () => {
          const end = this.#world.agentDoor.abandon()
          await delay(fault.forMs)
          end()
        })
      case 'kill-relays':
        return this.#turn('relays', fault, relays.map(nameOfMember), async () => {
          await Promise.all(relays.map(({ app }) => this.#inTurn(app.name, () => stop(app, 'kill', fault.downMs))))
        })
      case 'full-disk':
        return this.#turn('disk', fault, relays.map(nameOfMember), async () => {
          await disk?.fill()
          await delay(fault.forMs)
          await disk?.empty()
          // A server that met a full disk has turned its JetStream off, and is started again by whoever made room.
          const server = this.#world.servers.at(-1)
          if (server !== undefined) await this.#inTurn(server.name, () => restartServer(server, fault.forMs / 10))
        })
      case 'part-nats':
        return this.#turn('cluster', fault, relays.map(nameOfMember), () => this.#partNode(fault))
      case 'half-open-clients':
      case 'dead-clients': {
        const edge = edges[fault.number]
        if (edge === undefined) return
        return this.#turn(`clients of ${edge.app.name}`, fault, [edge.app.name], () =>
          fault.kind === 'dead-clients'
            ? deadClients(edge, fault.count, fault.forMs)
            : halfOpen(this.#world.network, edge, fault.forMs),
        )
      }
      case 'kill':
      case 'terminate':
      case 'pause':
        if (fault.role === 'nats') return this.#hurtServer(fault)
        return this.#hurtMember(fault, '', ({ app }) =>
          fault.kind === 'pause' ? freeze(app, fault.forMs) : stop(app, fault.kind, fault.downMs),
        )
      case 'clock':
        return this.#hurtMember(fault, ' clock', (member) => shiftClock(member, fault.shiftMs))
      case 'part':
        return this.#hurtMember(fault, ' and NATS', (member) => this.#part(member, fault.way, fault.forMs))
      default:
        return this.#hurtMember(fault, ' and NATS', (member) => disturb(member, fault))
    }
  }

  #hurtMember(
    fault: Extract<Fault, { role: unknown }>,
    what: string,
    work: (member: Member) => Promise<unknown>,
  ): void {
    const member = (fault.role === 'relay' ? this.#world.relays : this.#world.edges)[fault.number]
    if (member !== undefined) this.#turn(`${member.app.name}${what}`, fault, [member.app.name], () => work(member))
  }

  #hurtServer(fault: Extract<Fault, { kind: 'kill' | 'terminate' | 'pause' }>): void {
    const hurt = this.#world.relays.map(nameOfMember)
    this.#turn('nats', fault, hurt, async () => {
      const server = (await leaderFirst(this.#world))[fault.number]
      if (server === undefined) return
      await this.#inTurn(server.name, async () => {
        if (fault.kind === 'pause') {
          server.pause()
          await delay(fault.forMs)
          return server.resume()
        }
        await (fault.kind === 'kill' ? server.kill() : server.terminate())
        await delay(fault.downMs)
        await startServer(server)
      })
    })
  }

  /** Packets between a process and NATS are lost: by the network where there is one, else by the proxies between. */
  async #part({ place, natsDoors }: Member, way: Direction, forMs: number): Promise<void> {
    const { network } = this.#world
    if (network === null) {
      for (const door of natsDoors) door.part(way)
      await delay(forMs)
      for (const door of natsDoors) door.join()
      return
    }
    const mend = [
      ...(way === 'down' ? [] : [network.lose(place.address, DOORS.nats)]),
      ...(way === 'up' ? [] : [network.lose(DOORS.nats, place.address)]),
    ]
    await delay(forMs)
    for (const one of mend) one()
  }

  /** `up` is what the node sends. */
  async #partNode({ number, way, forMs }: Extract<Fault, { kind: 'part-nats' }>): Promise<void> {
    const [node, ...others] = turned(await leaderFirst(this.#world), number)
    const { network, cluster } = this.#world
    if (node === undefined || cluster === null) return
    const mend = others.flatMap((other) => {
      if (network === null) return [partRoute(cluster, node.name, other.name, way)]
      return [
        ...(way === 'down' ? [] : [network.lose(node.host, other.host)]),
        ...(way === 'up' ? [] : [network.lose(other.host, node.host)]),
      ]
    })
    await delay(forMs)
    for (const one of mend) one()
  }

  #turn(name: string, fault: Fault, hurt: readonly string[], work: () => Promise<unknown>): void {
    void this.#inTurn(name, async () => {
      const inflicted: Inflicted = { name: nameOf(fault), fault, fromMs: Date.now(), toMs: Infinity, hurt }
      this.done.push(inflicted)
      await work()
      inflicted.toMs = Date.now()
    })
  }

  #inTurn(name: string, work: () => Promise<unknown>): Promise<void> {
    const before = this.#turns.get(name) ?? Promise.resolve()
    const mine = before.then(work).then(() => undefined)
    this.#turns.set(name, mine)
    // What fails is told by `mended`, and not as something nobody waited for.
    mine.catch(() => undefined)
    return mine
  }

  /** Every fault is over; throws what could not be mended. */
  async mended(): Promise<void> {
    await Promise.all(this.#turns.values())
  }
}

const opposite = { up: 'down', down: 'up', both: 'both' } as const

/** Without a network: the proxy between two nodes, whose `up` is from the later name to the earlier one. */
function partRoute(cluster: NatsCluster, from: string, to: string, way: Direction): () => void {
  const proxy = cluster.between(from as NodeName, to as NodeName)
  proxy.part(from > to ? way : opposite[way])
  return () => proxy.join()
}

const nameOfMember = ({ app }: Member): string => app.name

const turned = <T>(list: readonly T[], by: number): readonly T[] => [...list.slice(by), ...list.slice(0, by)]

async function restartServer(server: NatsServer, downMs: number): Promise<void> {
  if (server.child.exit === null) await server.kill()
  await delay(downMs)
  await startServer(server)
}

/** Again and again, as whatever supervises it would: while its disk is full it ends at once. */
async function startServer(server: NatsServer): Promise<void> {
  await eventually(
    `${server.name} starts`,
    async () => {
      if (server.child.exit === null) await server.kill()
      await server.start()
      return true
    },
    { withinMs: 60_000, everyMs: 500 },
  )
}

async function freeze(app: App, forMs: number): Promise<void> {
  app.child.pause()
  await delay(forMs)
  app.child.resume()
}

async function stop(app: App, how: 'kill' | 'terminate', downMs: number): Promise<void> {
  if (how === 'kill') await app.child.kill()
  else await app.child.terminate(60_000)
  await delay(downMs)
  await app.restart({ wait: false })
}

/** What a network between a process and NATS does that still carries bytes, sooner or later. */
async function disturb(
  { natsDoors }: Member,
  { kind, forMs }: Extract<Fault, { kind: 'cut-off' | 'hold' | 'delay' | 'slice' }>,
): Promise<void> {
  if (kind === 'hold') {
    const held = natsDoors.map((door) => door.holdUp())
    await delay(forMs)
    for (const one of held) one.flow()
    return
  }
  for (const door of natsDoors) {
    if (kind === 'cut-off') {
      door.refuses = true
      door.cut()
    } else if (kind === 'delay') door.delayMs = 50
    else door.sliceBytes = 7
  }
  await delay(forMs)
  for (const door of natsDoors) {
    door.refuses = false
    door.delayMs = 0
    door.sliceBytes = 0
  }
}

/** Every packet between an edge and its clients is lost, or, without a network of our own, what they had open is dead. */
async function halfOpen(network: Network | null, { clientDoor, place }: Member, forMs: number): Promise<void> {
  const ends =
    network === null
      ? [clientDoor?.abandon()]
      : [network.lose(place.address, DOORS.clients), network.lose(DOORS.clients, place.address)]
  await delay(forMs)
  for (const end of ends) end?.()
}

/** They ask for every run's events, and read none. */
async function deadClients({ clientDoor }: Member, count: number, forMs: number): Promise<void> {
  if (clientDoor === null) return
  const sockets = Array.from({ length: count }, () => {
    const socket = connect({ port: clientDoor.port, host: '127.0.0.1' })
    socket.on('error', () => undefined).pause()
    socket.write('GET /topics/events?topic=%3E&from=start HTTP/1.1\r\nhost: edge\r\naccept: text/event-stream\r\n\r\n')
    return socket
  })
  await delay(forMs)
  for (const socket of sockets) socket.destroy()
}

/** Its wall clock jumps, and jumps back some seconds later; nothing that matters may hang on it. */
async function shiftClock(member: Member, shiftMs: number): Promise<void> {
  await order(member, { clockShiftMs: shiftMs })
  await delay(5000)
  await order(member, { clockShiftMs: 0 })
}

/** Gives an order to the hand inside a process, once it is there to take it. */
export async function order({ app, orders }: Member, what: object): Promise<void> {
  await writeFile(orders, JSON.stringify(what))
  // The signal ends a process that has not come to load what waits for it.
  await eventually(
    `${app.name} takes orders`,
    () => app.child.output.includes('.started"') || app.child.output.includes('edge.listening'),
    {
      withinMs: 60_000,
    },
  ).catch(() => undefined)
  if (app.child.exit === null) process.kill(app.child.pid, 'SIGUSR2')
}
