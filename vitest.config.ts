import { defineConfig } from 'vitest/config'

const limits = { testTimeout: 30_000, hookTimeout: 30_000 }

/**
 * `unit` needs nothing but Node, `contract` a nats-server, `scenario` whole processes, `fault` kills them. Each file
 * starts the servers it needs on free ports. One after the other: what kills processes and waits for the survivors
 * wants the machine for itself.
 */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...limits,
          name: 'unit',
          include: [
            'libs/*/src/**/*.test.ts',
            'apps/*/src/**/*.test.ts',
            'apps/cli/setup/**/*.test.ts',
            'test/kit/**/*.test.ts',
            'test/check/**/*.test.ts',
            'test/simulation/**/*.test.ts',
          ],
          sequence: { groupOrder: 0 },
        },
      },
      { test: { ...limits, name: 'contract', include: ['test/contract/**/*.test.ts'], sequence: { groupOrder: 1 } } },
      {
        test: {
          ...limits,
          name: 'scenario',
          testTimeout: 120_000,
          include: ['test/scenario/**/*.test.ts'],
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          ...limits,
          name: 'fault',
          testTimeout: 600_000,
          include: ['test/fault/**/*.test.ts'],
          fileParallelism: false,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
})
