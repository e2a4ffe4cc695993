import { EXIT } from './exit.ts'
import { columns } from './print.ts'

/** What a terminal has where nobody made it larger. */
const WIDTH = 80

/** Words and what they mean, in two columns; a meaning goes on below itself where a terminal would break it. */
function lines(rows: readonly (readonly [string, string])[]): string {
  const room = WIDTH - Math.max(...rows.map(([word]) => word.length)) - 4
  const table = rows.flatMap(([word, meaning]) =>
    wrap(meaning, room).map((part, at) => ['', at === 0 ? word : '', part]),
  )
  return columns(table)
}

const wrap = (text: string, room: number): string[] =>
  text.split(' ').reduce<string[]>((parts, word) => {
    const last = parts.at(-1)
    if (last === undefined || last.length + 1 + word.length > room) return [...parts, word]
    return [...parts.slice(0, -1), `${last} ${word}`]
  }, [])

/** What is worth knowing and belongs to no single command: `baton help <topic>`. */
export const HELP_TOPICS: Readonly<Record<string, { readonly what: string; readonly text: string }>> = {
  'exit-codes': {
    what: 'what an exit code says',
    text: lines([
      ...Object.values(EXIT).map(({ code, means }) => [String(code), means] as const),
      ['130', 'stopped by Ctrl-C or a signal before it was done'],
    ]),
  },
  environment: {
    what: 'the variables this command reads',
    text: `${lines([
      ['BATON_NATS_URL', 'where NATS is: nats://127.0.0.1:4222; several with commas; user:password@ in it'],
      ['BATON_NATS_CREDS', 'a .creds file, in place of a user in the URL'],
      ['BATON_NATS_INBOX_PREFIX', 'where answers come, for a user who may hear only those under a prefix'],
      [
        'BATON_EDGE_URL',
        'edges for tail and publish, with commas: what --edge says; tail else asks http://127.0.0.1:8080, publish NATS',
      ],
      ['BATON_TOKEN', 'what edges are shown where they ask for a token'],
      ['BATON_REPLICAS', '1 or 3; with the limits (BATON_RUN_EVENTS, …): what setup and doctor compare with'],
      [
        'BATON_QUIET_MS',
        '… BATON_STALL_MS, BATON_DISCONNECT_MS, BATON_ORPHAN_MS: how runs watch judges where no watchdog does',
      ],
      ['NO_COLOR', 'no colours; FORCE_COLOR=1: colours in a pipe, too'],
    ])}

Variables of the apps may stand there, too. \`baton config check\` shows all of an
app, with what they come to; a BATON_ name that nobody knows, or a bad value,
ends every command with 2.`,
  },
  output: {
    what: 'text, JSON, terminals and pipes',
    text: `Results go to stdout, everything else to stderr. With --json each result is one
line of JSON, the same for a terminal and a pipe; fields are added, never
renamed. Help, completion scripts and what goes to stderr stay text.

Without it results are for people: tables are cut to the width of a terminal
and never in a pipe; colours only on a terminal. A reader that closes the pipe
(head) ends a command in silence.`,
  },
  positions: {
    what: 'where a stream begins',
    text: `${lines([
      ['start', 'the oldest event that is kept'],
      ['now', 'only what comes from now on'],
      ['-<count>', 'so many of the newest first'],
      ['<number>', 'runs: from this index; topics: from this sequence'],
      ['<time>', 'topics: from this time on, RFC 3339'],
    ])}

--last-event-id takes the "position" of the last event you have and goes on
after it, at any edge.`,
  },
  registration: {
    what: 'what `runs add --file` takes',
    text: `{
  "run": "mine",                           A-Z a-z 0-9 _ -; may be left out
  "jobs": [{                               one job may stand at the top instead
    "job": "main",
    "url": "http://agent/jobs/1/stream",
    "resume": "auto",                      auto, last-event-id, replay or none
    "headers": {"x-tenant": "7"},          no keys in here
    "secret": "NAME",                      BATON_SECRET_NAME as a bearer token
    "secretHeader": "x-api-key",           … or in this header
    "cancel": "http://agent/jobs/1/cancel" one POST when the run is cancelled
  }],
  "progressTypes": ["output"],             events that say it gets somewhere
  "terminalTypes": ["done"],               events that end it
  "labels": {"team": "blue"},
  "quietMs": 60000, "stallMs": 3600000, "orphanMs": 3600000
}`,
  },
  verdicts: {
    what: 'what a watchdog finds of a run',
    text: lines([
      ['running', 'the agent gets somewhere'],
      ['quiet', 'no progress for a while: a long tool call is that (BATON_QUIET_MS)'],
      ['stalled', 'no progress for long; the connection is fine, the agent is not (BATON_STALL_MS)'],
      ['disconnected', 'no relay has it, or no job is connected and no byte comes (BATON_DISCONNECT_MS)'],
      ['orphaned', 'no progress for long, and nobody connected (BATON_ORPHAN_MS)'],
      ['ended', 'its end is stored'],
    ]),
  },
}
