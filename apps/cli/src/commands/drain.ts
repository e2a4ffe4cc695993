import type { Command } from 'commander'
import type { Beat } from '@baton/core/records'
import { pause } from '@baton/service/sleep'
import type { Nats } from '@baton/store/connect'
import { askDrain, ping } from '@baton/store/peers'
import { CommandError } from '../exit.ts'
import { hearRelays } from '../hear-relays.ts'
import { count, examples } from '../parse-argument.ts'
import type { Print } from '../print.ts'
import type { Tools } from '../surroundings.ts'

type Flags = { readonly wait: boolean; readonly timeout: number; readonly listen: number }

const ANSWER_MS = 2000
const LOOK_MS = 100

/** `baton drain`: what SIGTERM does to a relay, for who cannot signal it. */
export function drainCommand(program: Command, tools: Tools): void {
  program
    .command('drain')
    .description('have a relay hand over all its runs and end, as at SIGTERM; who keeps it running starts it again')
    .argument('<relay>', 'its name, or its boot where several have the name')
    .option('--no-wait', 'do not wait until it is gone')
    .option('--timeout <ms>', 'how long to wait', count, 60_000)
    .option('--listen <ms>', 'for relays; they beat every 200 ms unless told otherwise', count, 600)
    .addHelpText('after', examples('baton drain relay-1', 'baton drain 3f2a90c1d4e5 --no-wait'))
    .action((relay: string, given: Flags) => tools.inStore((nats) => drain(nats, relay, given, tools)))
}

async function drain(nats: Nats, wanted: string, flags: Flags, { print, warn, signal }: Tools): Promise<void> {
  const alive = await hearRelays(nats, flags.listen, signal)
  const beat = choose(alive, wanted)
  if (!alive.some(({ boot, draining }) => boot !== beat.boot && !draining)) {
    warn(`${beat.relay} is the only relay: its runs wait until there is another`)
  }
  const startedAtMs = performance.now()
  const answer = await askDrain(nats, beat.boot, ANSWER_MS)
  if (answer === null) throw new CommandError('unreachable', `${beat.relay} does not answer a request to drain`)
  const { relay, boot, runs } = answer
  if (flags.wait && !(await isGone(nats, boot, flags.timeout, signal))) {
    throw new CommandError('wrong', `${relay} is still there after ${flags.timeout} ms; it goes on draining`)
  }
  say({ relay, boot, runs, gone: flags.wait, tookMs: Math.round(performance.now() - startedAtMs) }, print())
}

type Drained = Pick<Beat, 'relay' | 'boot' | 'runs'> & { readonly gone: boolean; readonly tookMs: number }

function say(drained: Drained, print: Print): void {
  const { relay, boot, runs, gone, tookMs } = drained
  const amount = runs === 1 ? '1 run' : `${runs} runs`
  const text = gone ? `has handed over ${amount} and is gone, in ${tookMs} ms` : `hands over ${amount}`
  print.result(drained, `${relay} (boot ${boot}) ${text}`)
}

/** A boot is one process; a name may be that of several. */
function choose(alive: readonly Beat[], wanted: string): Beat {
  const found = alive.filter(({ boot, relay }) => boot === wanted || relay === wanted)
  const [only] = found
  if (only === undefined) {
    const names = alive.map(({ relay }) => relay).join(', ')
    throw new CommandError('unknown', `there is no relay ${wanted}${names === '' ? '' : `; there are ${names}`}`)
  }
  if (found.length > 1) {
    const boots = found.map(({ boot, host, pid }) => `  ${boot}  pid ${pid} on ${host}`).join('\n')
    throw new CommandError('usage', `${found.length} relays are called ${wanted}; give the boot of one:\n${boots}`)
  }
  return only
}

async function isGone(nats: Nats, boot: string, withinMs: number, signal: AbortSignal): Promise<boolean> {
  const deadlineMs = performance.now() + withinMs
  while (performance.now() < deadlineMs) {
    if ((await ping(nats, boot, ANSWER_MS)) === 'nobody') return true
    await pause(LOOK_MS, signal)
    signal.throwIfAborted()
  }
  return false
}
