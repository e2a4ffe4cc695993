import { spawn } from 'node:child_process'
import { parseArgs } from 'node:util'
import { LongRun } from './long-run.ts'
import { inOwnNetwork, Network } from './network.ts'
import { DOORS } from './world.ts'

/**
 * The long fault run: `npm run chaos -- --minutes M --seed S [--replicas 1|3]` (README.md in this folder). Exit 1 on the
 * first broken promise.
 */
const USAGE = 'npm run chaos -- --minutes M --seed S [--replicas 1|3]'
const ABOUT = `Inflicts faults on a whole system and checks every promise, until it is over or one is
broken. Default: 10 minutes, a seed for each day, one nats-server.`
const asked = readArguments()
const again = inOwnNetwork()
process.exit(again === null ? await run() : await runAgain(again))

async function run(): Promise<number> {
  const network = Network.open(Object.values(DOORS))
  const { seed, replicas, minutes } = asked
  const where = network === null ? 'on loopback alone: no packet is lost, no disk is full' : 'in a network of its own'
  console.log(`chaos: seed ${seed}, ${replicas} replica(s), ${minutes} minutes, ${where}`)
  return (await new LongRun({ ...asked, network }).run()) ? 0 : 1
}

/** The same in a process that is alone in its network; whoever ends this one ends that. */
async function runAgain({ command, environment }: NonNullable<typeof again>): Promise<number> {
  const [first = '', ...rest] = [...command, process.execPath, ...process.argv.slice(1)]
  const inner = spawn(first, rest, { stdio: 'inherit', env: environment })
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => inner.kill(signal))
  process.on('exit', () => inner.kill('SIGKILL'))
  return new Promise((resolve, reject) => {
    inner.once('error', reject).once('exit', (code) => resolve(code ?? 1))
  })
}

function usage(complaint: string): never {
  console.error(`${complaint}\nusage: ${USAGE}`)
  process.exit(2)
}

function readArguments(): { minutes: number; seed: number; replicas: 1 | 3 } {
  try {
    const { values } = parseArgs({
      options: {
        minutes: { type: 'string', default: '10' },
        seed: { type: 'string', default: String(Math.floor(Date.now() / 86_400_000)) },
        replicas: { type: 'string', default: '1' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    if (values.help) {
      console.log(`${USAGE}\n\n${ABOUT}`)
      process.exit(0)
    }
    const [minutes, seed] = [Number(values.minutes), Number(values.seed)]
    if (!(minutes > 0)) usage('--minutes must be a number above 0')
    if (!Number.isSafeInteger(seed) || seed < 0) usage('--seed must be a whole number')
    if (values.replicas !== '1' && values.replicas !== '3') usage('--replicas must be 1 or 3')
    return { minutes, seed, replicas: values.replicas === '3' ? 3 : 1 }
  } catch (error) {
    return usage(error instanceof Error ? error.message : String(error))
  }
}
