import type { Command } from 'commander'
import type { Thresholds } from '@baton/core/judge'
import type { Environment } from '@baton/service/config'
import type { Nats } from '@baton/store/connect'
import type { TopologyOptions } from '@baton/store/topology'
import type { EdgeFlags } from './edge-options.ts'
import { withStore, type StoreOptions } from './open-store.ts'
import { createPrint, type Print } from './print.ts'
import type { Screen } from './screen.ts'
import type { UpOptions } from './up/plan.ts'

export type Program = { readonly name: string; readonly version: string | null; readonly needed: boolean }

/** What the commands need of the process they run in. What reads the environment throws ConfigError. */
export type Surroundings = {
  readonly version: string
  /** All that stands behind `baton`, for what is answered before the whole of it was read. */
  readonly line: readonly string[]
  readonly environment: Environment
  readonly store: () => StoreOptions
  readonly topology: () => TopologyOptions
  /** By which runs are judged where no watchdog does. */
  readonly thresholds: () => Thresholds
  /** Which edges, and what they are shown, where nothing is said on the command line. */
  readonly edges: () => EdgeFlags
  readonly complaints: () => readonly string[]
  readonly programs: () => Promise<readonly Program[]>
  readonly up: (options: UpOptions, json: boolean) => Promise<void>
  /** Has an app look at an environment as it does when it starts; its complaints, none where it would start. */
  readonly checkConfig: (app: string) => Promise<readonly string[]>
  readonly dataFolder: string
  /** For a shell that completes one. */
  readonly runIds: readonly string[]
  readonly screen: Screen
  readonly write: (line: string) => void
  /** For what is no result. */
  readonly warn: (line: string) => void
  readonly signal: AbortSignal
}

/** The surroundings, and what every command does with them. */
export type Tools = Surroundings & {
  readonly print: () => Print
  readonly inStore: (work: (nats: Nats) => Promise<void>) => Promise<void>
}

export const createTools = (program: Command, around: Surroundings): Tools => ({
  ...around,
  // The screen is asked each time: a terminal may have been resized.
  print: () => createPrint(program.opts<{ json?: boolean }>().json === true, around),
  inStore: (work) => withStore(around.store(), work, around.signal),
})
