import { OpenAPIHono } from '@hono/zod-openapi'
import type { HttpBindings } from '@hono/node-server'
import type { Context } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { BatonError } from '@baton/core/errors'
import { authenticate } from './access/authenticate.ts'
import type { Access } from './access/access.ts'
import { describeAccess } from './access/describe.ts'
import { holdBodies, type Held } from './bodies.ts'
import type { Edge } from './edge.ts'
import { guard } from './guard.ts'
import { Problem, problemResponse, toProblem } from './problem.ts'
import { refuseMalformed } from './refuse-malformed.ts'
import { runEvents, runEventsRoute } from './routes/run-events.ts'
import { runHistory, runHistoryRoute } from './routes/run-history.ts'
import * as runs from './routes/runs.ts'
import { runsEvents, runsEventsRoute } from './routes/runs-events.ts'
import * as service from './routes/service.ts'
import { topicEvents, topicEventsRoute } from './routes/topic-events.ts'
import { makeTicket, makeTicketRoute } from './routes/tickets.ts'
import * as topics from './routes/topics.ts'

export type EdgeEnv = { Bindings: HttpBindings; Variables: { access: Access; held: Held } }

/** All routes of an edge. */
export function createApp(edge: Edge): OpenAPIHono<EdgeEnv> {
  const app = new OpenAPIHono<EdgeEnv>({
    defaultHook: (result) => {
      if (result.success) return
      const complaints = result.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)
      throw new BatonError('invalid', complaints.join('; '))
    },
  })
  app.use(guard(edge.config.corsOrigins))
  app.use(authenticate(edge))
  app.use(holdBodies(edge))
  app.use('/runs/*', refuseMalformed)
  app.use('/topics/*', refuseMalformed)

  app.openAPIRegistry.registerPath(runs.registerRunRoute)
  app.post('/runs', runs.registerRun(edge))
  app.openapi(runs.listRunsRoute, runs.listRuns(edge))
  // Before the routes of one run and of one topic, which would take `events` for a name.
  app.openapi(runsEventsRoute, runsEvents(edge) as never)
  app.openapi(topicEventsRoute, topicEvents(edge) as never)
  app.openapi(runs.showRunRoute, runs.showRun(edge))
  app.openapi(runs.cancelRunRoute, runs.cancelRun(edge))
  // The stream writes to the socket itself, so what its handler returns fits no schema.
  app.openapi(runEventsRoute, runEvents(edge) as never)
  app.openapi(runHistoryRoute, runHistory(edge))
  app.openAPIRegistry.registerPath(topics.publishTopicRoute)
  app.post('/topics/:topic', topics.publishOne(edge))
  app.openAPIRegistry.registerPath(topics.publishManyRoute)
  app.post('/topics', topics.publishMany(edge))
  app.openapi(topics.showTopicRoute, topics.showTopic(edge))
  app.openapi(makeTicketRoute, makeTicket(edge))
  app.openapi(service.relaysRoute, service.listRelays(edge))
  app.openapi(service.livezRoute, service.livez)
  app.openapi(service.readyzRoute, service.readyz(edge))
  app.openapi(service.metricsRoute, service.metrics(edge))
  for (const path of service.PAGES) app.get(path, service.page)
  app.get('/openapi.json', (c) => {
    const document = app.getOpenAPI31Document({ openapi: '3.1.0', info: { title: 'Baton', version: '1' } })
    return c.json(describeAccess(document, edge.tokens !== null))
  })

  refuseOtherMethods(app)
  app.notFound((c) => say(c, new Problem(404, 'not_found', 'there is nothing here')))
  app.onError((error, c) => {
    if (error instanceof Problem) {
      if (error.status === 401 || error.status === 403) edge.metrics.denied(error.status)
      return say(c, error)
    }
    if (error instanceof BatonError) return say(c, toProblem(error))
    if (error instanceof HTTPException)
      return say(c, new Problem(error.status, 'invalid', 'the request cannot be read'))
    edge.log.error({ err: error }, 'request.failed')
    return say(c, new Problem(500, 'internal', 'something went wrong here; it has been logged'))
  })
  return app
}

/** With what the guard has put down for the page that asks, or it could not read why it was refused. */
function say(c: Context<EdgeEnv>, problem: Problem): Response {
  const response = problemResponse(problem)
  return c.newResponse(response.body, response)
}

/** Every path answers OPTIONS, and a method it does not know with 405; both name what it does know. */
function refuseOtherMethods(app: OpenAPIHono<EdgeEnv>): void {
  const methods = new Map<string, Set<string>>()
  for (const { path, method } of app.routes) {
    if (method === 'ALL') continue
    methods.set(path, (methods.get(path) ?? new Set(['OPTIONS'])).add(method))
  }
  for (const [path, known] of methods) {
    // What `/topics/events` does not know itself is asked of `/topics/:topic`.
    for (const [other, more] of methods) if (covers(other, path)) for (const method of more) known.add(method)
    if (known.has('GET')) known.add('HEAD')
    const allow = [...known].sort().join(', ')
    app.all(path, (c) => {
      if (c.req.method === 'OPTIONS') return c.body(null, 204, { allow })
      throw new Problem(405, 'method_not_allowed', `this path knows ${allow}`, { allow })
    })
  }
}

/** Does every request for `path` fit `pattern`, which takes any name where it has a parameter? */
function covers(pattern: string, path: string): boolean {
  const [names, parts] = [pattern.split('/'), path.split('/')]
  return names.length === parts.length && names.every((name, at) => name.startsWith(':') || name === parts[at])
}
