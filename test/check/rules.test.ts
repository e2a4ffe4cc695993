import { expect, test } from 'vitest'
import { violations, type Manifest } from './rules.ts'

const manifest = (folder: string, ...dependencies: string[]): Manifest => ({
  path: `${folder}/package.json`,
  name: `@baton/${folder.split('/')[1]}`,
  dependencies,
})

const manifests = [
  manifest('libs/core', 'zod'),
  manifest('libs/sse', '@baton/core', 'eventsource-parser'),
  manifest('libs/store', '@baton/core', '@nats-io/kv'),
  manifest('apps/edge', '@baton/core', '@baton/store', 'hono'),
  manifest('apps/relay', '@baton/core', '@baton/store', 'undici'),
  manifest('apps/watchdog', '@baton/core', '@baton/store'),
  manifest('apps/cli', '@baton/core'),
]

test.each([
  ['a lib imports a sibling', 'libs/sse/src/a.ts', `import { x } from '@baton/store/names'`],
  ['an app imports an app', 'apps/edge/src/a.ts', `import type { X } from '@baton/relay/relay'`],
  ['a watchdog imports a relay', 'apps/watchdog/src/a.ts', `import { Claims } from '@baton/relay/claims'`],
  ['the core imports a lib', 'libs/core/src/a.ts', `import { x } from '@baton/sse/format'`],
  ['@nats-io outside of the store', 'apps/edge/src/a.ts', `import { connect } from '@nats-io/transport-node'`],
  ['hono outside of the edge', 'apps/relay/src/a.ts', `import { Hono } from 'hono'`],
  ['a part of hono outside of the edge', 'apps/relay/src/a.ts', `import { cors } from 'hono/cors'`],
  ['undici outside of the relay', 'apps/edge/src/a.ts', `const { Agent } = await import('undici')`],
  ['a package that is not listed', 'apps/edge/src/a.ts', `import { pino } from 'pino'`],
  ['a way around the package name', 'apps/edge/src/a.ts', `export { x } from '../../relay/src/relay.ts'`],
  ['an import over several lines', 'libs/sse/src/a.ts', `import {\n  x,\n  y,\n} from '@baton/store/names'`],
  ['the set-up imports what is not yet installed', 'apps/cli/setup/a.js', `import { Command } from 'commander'`],
  ['process.env outside of main.ts', 'apps/edge/src/config.ts', `const port = process.env['PORT']`],
  ['the core reads a file', 'libs/core/src/a.ts', `import { readFileSync } from 'node:fs'`],
  ['the core tells the time', 'libs/core/src/a.ts', `export const now = () => Date.now()`],
  ['the core makes a date', 'libs/core/src/a.ts', `export const now = () => new Date()`],
  ['the core rolls dice', 'libs/core/src/a.ts', `export const dice = () => Math.random()`],
  ['the core waits', 'libs/core/src/a.ts', `setTimeout(() => undefined, 1)`],
  ['a file of more than 500 lines', 'apps/edge/src/a.ts', '\n'.repeat(500)],
])('refused: %s', (_, path, text) => {
  expect(violations([{ path, text }], manifests)).toEqual([expect.stringContaining(path)])
})

test.each([
  ['apps/edge/package.json', manifest('apps/edge', '@baton/relay')],
  ['libs/sse/package.json', manifest('libs/sse', '@baton/store')],
  ['libs/core/package.json', manifest('libs/core', '@nats-io/kv')],
])('refused: a dependency in %s that the rule forbids', (path, wrong) => {
  expect(violations([], [wrong])).toEqual([expect.stringContaining(path)])
})

test.each([
  ['an app imports libs', 'apps/edge/src/a.ts', `import { x } from '@baton/store/names'\nimport { Hono } from 'hono'`],
  ['the store imports NATS', 'libs/store/src/a.ts', `import { Kvm } from '@nats-io/kv'`],
  ['main.ts reads the environment', 'apps/edge/src/main.ts', `run(process.env)`],
  [
    'words in a comment',
    'libs/core/src/a.ts',
    `// Date.now() is not used here, nor import('node:fs')\n/* Math.random() */`,
  ],
  ['words in a message', 'libs/core/src/a.ts', `throw new Error('Date and crypto')`],
  ['reading a written date', 'libs/core/src/a.ts', `Date.parse('2026-01-01')`],
  [
    'tests import all',
    'test/scenario/a.test.ts',
    `import '@nats-io/transport-node'\nimport '../../apps/cli/setup/lock.js'`,
  ],
  ['a test beside its source', 'libs/core/src/a.test.ts', `import { test } from 'vitest'\nDate.now()`],
])('allowed: %s', (_, path, text) => {
  expect(violations([{ path, text }], manifests)).toEqual([])
})
