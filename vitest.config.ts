import { basename } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Generous: what a test waits for has limits of its own, and says what did not happen. */
const limits = { testTimeout: 90_000, hookTimeout: 90_000 }

/** What wants the machine for itself: its load is as much as two cores carry, or its faults are judged by the clock. */
const alone = ['test/scenario/gateway-load.test.ts', 'test/fault/fault-run.test.ts']

/** Begun first, for each takes minutes: at the end all workers have something to do. */
const longest = ['watchdog', 'replicas-killed', 'replicas-topics', 'mutants', 'replicas', 'up', 'resume']

/**
 * Most tests wait most of their time, so several files run at once, however few cores there are: first all that can bear
 * others beside it, then what is to be alone.
 */
const together = { maxWorkers: 6, sequence: { groupOrder: 0 } }

/** Spreads the files of each project over the whole run: scenarios wait, contracts compute. */
class Mixed extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const byProject = Map.groupBy(sorted, ({ project }) => project.name)
    const place = (file: TestSpecification): number => {
      const at = longest.indexOf(basename(file.moduleId, '.test.ts'))
      if (at >= 0) return at - longest.length
      const others = byProject.get(file.project.name) ?? []
      return others.indexOf(file) / others.length
    }
    const places = new Map(sorted.map((file) => [file, place(file)]))
    return sorted.toSorted((one, other) => (places.get(one) ?? 0) - (places.get(other) ?? 0))
  }
}

/**
 * `unit` needs nothing but Node, `contract` a nats-server, `scenario` whole processes, `fault` kills them. Each file
 * starts the servers it needs on free ports.
 */
export default defineConfig({
  test: {
    sequence: { sequencer: Mixed },
    projects: [
      {
        test: {
          ...limits,
          ...together,
          name: 'unit',
          // Pure functions: nothing is left over in a module that another file could stumble over.
          isolate: false,
          include: [
            'libs/*/src/**/*.test.ts',
            'apps/*/src/**/*.test.ts',
            'apps/cli/setup/**/*.test.ts',
            'test/kit/**/*.test.ts',
            'test/check/**/*.test.ts',
            'test/simulation/**/*.test.ts',
          ],
        },
      },
      { test: { ...limits, ...together, name: 'contract', include: ['test/contract/**/*.test.ts'] } },
      {
        test: {
          ...limits,
          ...together,
          name: 'scenario',
          testTimeout: 240_000,
          include: ['test/scenario/**/*.test.ts'],
          exclude: alone,
        },
      },
      {
        test: {
          ...limits,
          ...together,
          name: 'fault',
          testTimeout: 600_000,
          include: ['test/fault/**/*.test.ts'],
          exclude: alone,
        },
      },
      {
        test: {
          ...limits,
          name: 'alone',
          testTimeout: 600_000,
          include: alone,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
