// @ts-check

/**
 * Follows one run by a plain EventSource and shows who owns it, what happened when it changed hands, and whether
 * anything was missing or came twice. `?run=` names the run; without it, the live run that began last.
 */

/** @typedef {{ run: string, state: string, end: { reason: string } | null, owner: Owner | null, first: Place | null, livenessAgeMs: number | null, health: string | null }} Run */
/** @typedef {{ relay: string, boot: string, epoch: number | null }} Owner */
/** @typedef {{ sequence: number, index: number }} Place */
/** @typedef {{ relay: string, boot: string, pid: number, runs: number, draining: boolean, beatAgeMs: number }} Relay */

const SHOWN_EVENTS = 200
const SHOWN_STORY = 50
const POLL_MS = 1000
/** The list costs the edge a look at every run in it. */
const LIST_MS = 10_000
/** How long an ended run stays before the page goes on to the next live one. */
const AFTER_END_MS = 5000
/** EventSource comes back by itself after a loss, but not after an answer it takes for final. */
const REOPEN_MS = 2000

/** @param {string} id */
const at = (id) => /** @type {HTMLElement} */ (document.getElementById(id))
const picker = /** @type {HTMLSelectElement} */ (at('runs'))

const asked = new URLSearchParams(location.search).get('run')

/** What is known of the run that is followed. */
const view = {
  /** @type {string | null} */ run: null,
  /** @type {EventSource | null} */ source: null,
  lastEventId: '',
  count: 0,
  /** @type {number | null} */ index: null,
  holes: 0,
  connections: 0,
  ended: false,
  /** @type {Owner | null} */ owner: null,
  lastEventMs: 0,
  /** The longest wait between two events since the last look at the owner. */
  longestWaitMs: 0,
}

/** @param {'waiting' | 'live' | 'back' | 'lost' | 'ended'} state @param {string} text */
function showLink(state, text) {
  at('link').dataset['state'] = state
  at('link').textContent = text
}

/** @param {string} tag @param {string} text @param {string} [className] */
function element(tag, text, className = '') {
  const made = document.createElement(tag)
  made.textContent = text
  if (className !== '') made.className = className
  return made
}

/** @param {string} text @param {string} [aside] */
function tell(text, aside = '') {
  const line = document.createElement('li')
  line.append(element('time', new Date().toLocaleTimeString()), ` ${text}`)
  if (aside !== '') line.append(document.createElement('br'), element('span', aside, 'aside'))
  at('story').prepend(line)
  while (at('story').childElementCount > SHOWN_STORY) at('story').lastElementChild?.remove()
}

/** Rows wait here until the browser draws: a burst is one change of the page. */
/** @type {HTMLElement[]} */
let rows = []

/** @param {string} number @param {string} type @param {string} data @param {boolean} [own] */
function addRow(number, type, data, own = false) {
  const row = document.createElement('li')
  if (own) row.className = 'own'
  row.append(
    element('span', number, 'number'),
    element('span', type, 'type'),
    element('span', data.slice(0, 500), 'data'),
  )
  rows.unshift(row)
  rows.length = Math.min(rows.length, SHOWN_EVENTS)
  if (rows.length === 1) requestAnimationFrame(draw)
}

function draw() {
  const list = at('events')
  list.prepend(...rows)
  rows = []
  while (list.childElementCount > SHOWN_EVENTS) list.lastElementChild?.remove()
  at('count').textContent = String(view.count)
  at('index').textContent = view.index === null ? '–' : String(view.index)
  at('connections').textContent = String(view.connections)
  at('order').dataset['state'] = view.holes === 0 ? 'good' : 'bad'
  at('order').textContent = view.holes === 0 ? 'yes, nothing missing' : `no, ${view.holes} times`
}

/** An event of the log: its index must be the next one. @param {MessageEvent} message */
function take(message) {
  const index = Number(message.lastEventId.split('-')[1])
  if (view.index !== null && index !== view.index + 1) view.holes++
  const nowMs = performance.now()
  if (view.lastEventMs > 0) view.longestWaitMs = Math.max(view.longestWaitMs, nowMs - view.lastEventMs)
  view.lastEventMs = nowMs
  view.index = index
  view.lastEventId = message.lastEventId
  view.count++
}

/** @param {string} run */
function follow(run) {
  view.source?.close()
  Object.assign(view, { run, source: null, lastEventId: '', count: 0, index: null, holes: 0, connections: 0 })
  Object.assign(view, { ended: false, owner: null, lastEventMs: 0, longestWaitMs: 0 })
  at('events').replaceChildren()
  at('story').replaceChildren()
  document.title = `${run} · Baton`
  open(run)
  look().catch(() => undefined)
}

/** @param {string} run */
function open(run) {
  const query = new URLSearchParams({ format: 'envelope' })
  // A new EventSource knows nothing of the one before it.
  if (view.lastEventId === '') query.set('from', '-100')
  else query.set('lastEventId', view.lastEventId)
  const source = new EventSource(`/runs/${encodeURIComponent(run)}/events?${query}`)
  view.source = source

  source.addEventListener('stream.open', (message) => {
    const { position } = JSON.parse(message.data)
    view.connections++
    view.lastEventId = message.lastEventId
    view.index = Number(position.split('-')[1])
    if (view.connections > 1) tell('Back', `going on after event ${view.index}`)
    showLink('live', 'live')
    draw()
  })
  source.addEventListener('stream.reset', (message) => {
    const { reason, missed, resumesAt } = JSON.parse(message.data)
    view.connections++
    view.lastEventId = message.lastEventId
    view.index = Number(resumesAt.split('-')[1])
    tell(
      `The stream starts anew: ${reason}`,
      missed === null ? 'how many are missing is not known' : `${missed} missing`,
    )
    addRow('', 'stream.reset', message.data, true)
    showLink('live', 'live')
  })
  source.addEventListener('stream.busy', (message) => {
    showLink('back', `busy: ${JSON.parse(message.data).reason}`)
  })
  source.addEventListener('stream.bye', (message) => {
    tell(`The edge said goodbye: ${JSON.parse(message.data).reason}`)
  })
  source.addEventListener('stream.gap', (message) => {
    take(message)
    const { reason, lost } = JSON.parse(message.data)
    tell(`The agent lost events: ${reason}`, lost === null ? '' : `${lost} of them`)
    addRow(String(view.index), 'stream.gap', message.data, true)
  })
  source.addEventListener('stream.end', (message) => {
    take(message)
    addRow(String(view.index), 'stream.end', message.data, true)
    view.ended = true
    const { reason } = JSON.parse(message.data)
    tell(`The run has ended: ${reason}`)
    showLink('ended', `ended: ${reason}`)
    source.close()
    if (asked === null) setTimeout(() => void choose(), AFTER_END_MS)
  })
  source.onmessage = (message) => {
    take(message)
    const { type, data } = JSON.parse(message.data)
    addRow(String(view.index), type, data)
  }
  source.onerror = () => {
    if (view.ended || view.source !== source) return
    if (at('link').dataset['state'] === 'live') tell('The connection was lost', `after event ${view.index ?? '–'}`)
    showLink('back', 'coming back …')
    if (source.readyState !== EventSource.CLOSED) return
    showLink('lost', 'refused; trying again …')
    setTimeout(() => view.source === source && open(run), REOPEN_MS + Math.random() * REOPEN_MS)
  }
}

/** @param {string} path @returns {Promise<any>} */
async function read(path) {
  const response = await fetch(path, { signal: AbortSignal.timeout(4000) })
  if (response.status === 401) showLink('lost', 'this edge asks for a token, in the cookie baton')
  if (!response.ok) throw Object.assign(new Error(`${path}: ${response.status}`), { status: response.status })
  return response.json()
}

/** Looks at the run: who owns it, and what happened if that is somebody else now. */
async function look() {
  const { run } = view
  if (run === null) return
  /** @type {Run} */
  const shown = await read(`/runs/${encodeURIComponent(run)}`).catch((error) => {
    // It may be registered yet: the page goes on asking.
    if (error.status === 404 && view.run === run) at('state').textContent = 'there is no such run'
    throw error
  })
  if (view.run !== run) return
  // A run that runs, and does so well, is said to run once.
  const fares = shown.health === null || shown.health === shown.state ? '' : `, ${shown.health}`
  at('state').textContent = shown.end === null ? `${shown.state}${fares}` : `${shown.state}, ${shown.end.reason}`
  at('owner').textContent = shown.owner === null ? 'nobody' : `${shown.owner.relay} · ${shown.owner.boot}`
  at('epoch').textContent = shown.owner?.epoch?.toString() ?? '–'
  at('liveness').textContent = shown.livenessAgeMs === null ? '–' : `${(shown.livenessAgeMs / 1000).toFixed(0)} s ago`
  const before = view.owner
  if (shown.owner !== null && before !== null && before.boot !== shown.owner.boot) {
    const waited =
      view.longestWaitMs > 0 ? `, the longest wait between two events ${Math.round(view.longestWaitMs)} ms` : ''
    const whole = view.holes === 0 ? 'nothing missing, nothing twice' : `${view.holes} holes`
    tell(`${before.relay} handed over to ${shown.owner.relay}`, `around event ${view.index ?? '–'}: ${whole}${waited}`)
  }
  if (shown.owner !== null) {
    view.owner = shown.owner
    view.longestWaitMs = 0
  }
}

async function lookAtRelays() {
  /** @type {Relay[]} */
  const relays = await read('/relays')
  at('relays').replaceChildren(
    ...relays.map(({ relay, boot, pid, runs, draining, beatAgeMs }) => {
      const line = element('li', `${relay} `)
      const state = draining ? 'leaving' : beatAgeMs > 2000 ? `silent for ${Math.round(beatAgeMs / 1000)} s` : 'beating'
      line.append(
        element('span', `pid ${pid} · ${boot} · ${runs === 1 ? '1 run' : `${runs} runs`} · ${state}`, 'aside'),
      )
      return line
    }),
  )
}

/**
 * The list comes by id, and ended runs stay in it for days: the live ones are asked for apart, so that they cannot be
 * missed behind them.
 * @returns {Promise<Run[]>} the one that began last first
 */
async function list() {
  /** @type {{ runs: Run[] }[]} */
  const pages = await Promise.all(['/runs?state=running&limit=50', '/runs?limit=50'].map(read))
  const runs = new Map(pages.flatMap((page) => page.runs.map((run) => [run.run, run])))
  const began = (/** @type {Run} */ run) => run.first?.sequence ?? 0
  return [...runs.values()].sort((one, other) => began(other) - began(one))
}

/** Fills the picker, and follows the newest live run where none is followed. */
async function choose() {
  const runs = await list()
  if (document.activeElement !== picker) {
    // One that is not listed is followed all the same, and must not seem to be another.
    const unlisted = view.run === null || runs.some(({ run }) => run === view.run) ? [] : [view.run]
    picker.replaceChildren(
      ...unlisted.map((run) => new Option(run, run, false, true)),
      ...runs.map(({ run, state }) => new Option(`${run} (${state})`, run, false, run === view.run)),
    )
  }
  const live = runs.find(({ state }) => state === 'running')
  if (view.run === null && asked !== null) return follow(asked)
  if (live !== undefined && (view.run === null || (view.ended && asked === null))) follow(live.run)
}

picker.addEventListener('change', () => {
  location.search = new URLSearchParams({ run: picker.value }).toString()
})

/** One look after another, whatever the last one met: the edge may be on its way back. */
async function keepLooking() {
  for (let listedMs = -LIST_MS; ;) {
    const nowMs = performance.now()
    const lists = view.run === null || nowMs - listedMs >= LIST_MS
    if (lists) listedMs = nowMs
    for (const one of lists ? [choose, look, lookAtRelays] : [look, lookAtRelays]) await one().catch(() => undefined)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

if (asked !== null) follow(asked)
void keepLooking()
