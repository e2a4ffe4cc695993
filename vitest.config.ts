import { defineConfig } from 'vitest/config'

const limits = { testTimeout: 30_000, hookTimeout: 30_000 }

/**
 * `unit` needs nothing but Node, `contract` a nats-server, `scenario` whole processes,
 * `fault` kills them. Each file starts the servers it needs on free ports.
 */
export default defineConfig({
  test: {
    projects: [
      { test: { ...limits, name: 'unit', include: ['libs/*/src/**/*.test.ts', 'apps/*/src/**/*.test.ts', 'test/kit/**/*.test.ts'] } },
      { test: { ...limits, name: 'contract', include: ['test/contract/**/*.test.ts'] } },
      { test: { ...limits, name: 'scenario', testTimeout: 120_000, include: ['test/scenario/**/*.test.ts'], fileParallelism: false } },
      { test: { ...limits, name: 'fault', testTimeout: 600_000, include: ['test/fault/**/*.test.ts'], fileParallelism: false } },
    ],
  },
})
