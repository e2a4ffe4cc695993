#!/usr/bin/env node
// @ts-check
import module from 'node:module'
import { handOver } from './hand-over.js'
import { findNode, NODE_FLOOR } from './node.js'
import { compiled, root } from './places.js'
import { say } from './say.js'

// `npx baton …` may be started by any Node; the CLI itself needs the pinned one.
const node = await findNode(root)
if (node === null) {
  say(`baton: needs Node ${NODE_FLOOR[0]} or newer: run npm run setup once`)
  process.exit(1)
}
if (node === process.execPath) {
  module.enableCompileCache(compiled)
  await import('../src/main.ts')
} else {
  const main = `${root}/apps/cli/src/main.ts`
  process.exitCode = await handOver(node, [main, ...process.argv.slice(2)], {
    cwd: process.cwd(),
    env: { NODE_COMPILE_CACHE: compiled, ...process.env },
  })
}
