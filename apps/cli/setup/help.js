// @ts-check
import { optionsOf } from './options.js'

/**
 * The help of the npm scripts that have no program of their own to give it. The others are asked themselves, with nothing set
 * up but what they need to answer.
 * @type {Record<string, string>}
 */
export const helpText = {
  setup: `npm run setup: brings what Baton needs on this machine and is not here yet

  node_modules, the pinned Node among them; nats-server 2.12 or newer; the nats
  CLI. It takes no options.

  BATON_NATS_SERVER=/path   a nats-server that is not on the PATH
`,
  test: `npm test -- [path or options]: sets up, then runs the tests

  npm test -- --project unit              unit, contract, scenario or fault
  npm test -- apps/relay                  files whose path has this in it
  npm test -- test/contract -t 'a name'   tests whose name has this in it

  All options are Vitest's: npx vitest run --help
`,
  check: `npm run check: format, lint, types, rules and unused code, side by side

  What was good and has not changed is not looked at again. One alone:
  npm run check:lint; npm run fix mends format and lint.
`,
}

/** @param {readonly string[]} args */
export function asksForHelp(args) {
  const options = optionsOf(args)
  return options.includes('--help') || options.includes('-h')
}
