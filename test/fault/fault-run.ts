import { everyAgent } from './every-agent.ts'
import { wave, type WaveResult } from './wave.ts'
import { World } from './world.ts'

/** One short wave of faults over a system of its own, on loopback alone: what every test run can afford. */
export async function faultRun(options: {
  seed: number
  lengthMs: number
}): Promise<WaveResult & { readonly outputs: ReadonlyMap<string, string> }> {
  const { seed, lengthMs } = options
  await using world = await World.start({ replicas: 1, relays: 3, edges: 2, network: null, smallDisk: false })
  const result = await wave(world, {
    name: 'w1',
    seed,
    lengthMs,
    runs: everyAgent,
    readers: 1,
    faults: { betweenMs: [300, 2500], longestMs: 5000, spares: false },
  })
  return { ...result, outputs: world.outputs }
}
