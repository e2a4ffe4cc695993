import { Argument, type Command } from 'commander'
import { appVariables } from '@baton/service/app-variables'
import { secretPattern } from '@baton/service/variables'
import { effectiveConfig, type EffectiveVariable } from '../effective-config.ts'
import { CommandError } from '../exit.ts'
import { examples } from '../parse-argument.ts'
import { columns } from '../print.ts'
import type { Tools } from '../surroundings.ts'

type App = keyof typeof appVariables

/** The agent is for trying things: nobody runs it beside the others. */
const APPS: readonly App[] = ['relay', 'edge', 'watchdog']

type Checked = {
  readonly app: App
  readonly ok: boolean
  readonly complaints: readonly string[]
  readonly variables: readonly EffectiveVariable[]
}

/** `baton config check`: would an app start with this environment, and with which values? */
export function configCheckCommand(program: Command, tools: Tools): void {
  program
    .command('config')
    .description('what the environment comes to')
    .helpCommand(false)
    .command('check')
    .description('look at the environment as an app does when it starts, and print what it comes to, secrets hidden')
    .addArgument(new Argument('[app]', 'one of them (default: relay, edge and watchdog)').choices([...APPS, 'agent']))
    .addHelpText('after', examples('baton config check', 'env $(cat edge.env) baton config check edge'))
    .action((app: App | undefined) => check(app === undefined ? APPS : [app], tools))
}

async function check(apps: readonly App[], { environment, checkConfig, print }: Tools): Promise<void> {
  const checked: Checked[] = []
  for (const app of apps) {
    const complaints = await checkConfig(app)
    const variables = [...effectiveConfig(environment, appVariables[app]), ...secrets(app, environment)]
    checked.push({ app, ok: complaints.length === 0, complaints, variables })
  }
  const to = print()
  to.result(checked, checked.map((one) => textOf(one, to.width)).join('\n\n'))
  const bad = checked.filter(({ ok }) => !ok).map(({ app }) => app)
  if (bad.length > 0) throw new CommandError('usage', `this environment does not do for: ${bad.join(', ')}`)
}

/** The keys of agents, by name: only relays have them. */
const secrets = (app: App, environment: Tools['environment']): EffectiveVariable[] =>
  Object.keys(environment)
    .filter((name) => app === 'relay' && secretPattern.test(name))
    .map((name) => ({ name, value: '[hidden]', from: 'environment' }))

function textOf({ app, complaints, variables }: Checked, width: number | null): string {
  const rows = variables.map(({ name, value, from }) => [`  ${name}`, value ?? '-', from === 'default' ? from : ''])
  const verdict = complaints.length === 0 ? 'would start' : 'would not start'
  return [`${app}: ${verdict}`, ...complaints.map((one) => `  ${one}`), columns(rows, width)].join('\n')
}
