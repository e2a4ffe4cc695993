// @ts-check
import { symlinkSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { dependenciesLack, installDependencies } from './dependencies.js'
import { whileLocked } from './lock.js'
import { findNode, NODE_FLOOR } from './node.js'
import { house, programs, root } from './places.js'
import { bring, dropCaches, find, inspect, natsCli, natsServer } from './programs.js'
import { say, SetupError } from './say.js'

/** @typedef {import('./programs.js').Found} Found */
/** @typedef {(pid: number) => void} OnPid */
/**
 * What a command needs: `check` no server, only `test` and `setup` try for the nats CLI.
 * @typedef {{ server: boolean, cli: boolean }} Want
 */
/** @typedef {{ node: string, natsServer: Found | null }} House */

/**
 * Brings what is missing and says where things are. With everything there it takes no lock and starts a few
 * `--version`s, no more.
 * @param {Want} want
 * @returns {Promise<House>}
 */
export async function setUp(want) {
  return (await look(want)) ?? whileLocked(join(house, 'setup.lock'), (onPid) => complete(want, onPid))
}

/**
 * The house if it is complete, without changing anything.
 * @param {Want} want
 * @returns {Promise<House | null>}
 */
async function look({ server, cli }) {
  if (dependenciesLack(root) !== null) return null
  const [node, serverFound, cliFound] = await Promise.all([
    findNode(root),
    server ? findServer() : null,
    cli ? inspect(natsCli, join(programs, natsCli.name)) : null,
  ])
  if (node === null || (server && serverFound === null) || (cli && cliFound === null)) return null
  return { node, natsServer: serverFound }
}

/**
 * @param {Want} want
 * @param {OnPid} onPid
 * @returns {Promise<House>}
 */
async function complete({ server, cli }, onPid) {
  // What another set-up did while this one waited for the lock is not done again.
  const lack = dependenciesLack(root)
  if (lack !== null) await installDependencies(root, lack, onPid)
  const node = (await findNode(root)) ?? (await reinstallForNode(onPid))
  try {
    const natsServer = server ? ((await findServer()) ?? (await bringServer(onPid))) : null
    if (cli) await provideCli(onPid)
    return { node, natsServer }
  } finally {
    dropCaches(programs)
  }
}

/**
 * The lock file is satisfied and still no Node runs: the platform package is damaged or was left out.
 * @param {OnPid} onPid
 */
async function reinstallForNode(onPid) {
  await installDependencies(root, 'the pinned Node is missing', onPid)
  const node = await findNode(root)
  if (node !== null) return node
  throw new SetupError(
    `baton: needs Node ${NODE_FLOOR[0]} or newer; this is ${process.version}, and npm has no package of it for ` +
      `${process.platform}-${process.arch}: install Node ${NODE_FLOOR[0]} and start again`,
  )
}

/** @returns {Promise<Found | null>} */
async function findServer() {
  const given = process.env.BATON_NATS_SERVER ?? ''
  if (given === '') return find(natsServer, programs)
  const found = await inspect(natsServer, given)
  if (found !== null) return found
  throw new SetupError(
    `baton: BATON_NATS_SERVER=${given} is no nats-server ${natsServer.floor.join('.')} or newer that runs here`,
  )
}

/** @param {OnPid} onPid */
async function bringServer(onPid) {
  const result = await bring(natsServer, programs, onPid)
  if ('found' in result) return result.found
  throw new SetupError(
    [
      'baton: there is no nats-server 2.12 or newer, and none could be brought:',
      ...result.tried.map((line) => `  ${line}`),
      'Do one of these and start again: put nats-server on the PATH, say where it is with BATON_NATS_SERVER=/path, ' +
        'install Go 1.21 or newer, or start Docker.',
    ].join('\n'),
  )
}

/**
 * The nats CLI is wanted, never needed: without it a few tests are skipped and say so.
 * @param {OnPid} onPid
 */
async function provideCli(onPid) {
  const found = await find(natsCli, programs)
  const own = join(programs, natsCli.name)
  if (found?.path === own) return
  if (found !== null) {
    rmSync(own, { force: true })
    symlinkSync(found.path, own)
    return
  }
  const result = await bring(natsCli, programs, onPid)
  if ('found' in result) return
  say('baton: no nats CLI could be brought; Baton runs without it, a few tests are skipped:')
  for (const line of result.tried) say(`  ${line}`)
}
