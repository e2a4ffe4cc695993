import { OpenAPIHono } from '@hono/zod-openapi'
import type { HttpBindings } from '@hono/node-server'
import { HTTPException } from 'hono/http-exception'
import { BatonError } from '@baton/core/errors'
import type { Edge } from './edge.ts'
import { guard } from './guard.ts'
import { Problem, problemResponse, toProblem } from './problem.ts'
import { runEvents, runEventsRoute } from './routes/run-events.ts'
import { runHistory, runHistoryRoute } from './routes/run-history.ts'
import * as runs from './routes/runs.ts'
import { runsEvents, runsEventsRoute } from './routes/runs-events.ts'
import * as service from './routes/service.ts'
import { topicEvents, topicEventsRoute } from './routes/topic-events.ts'
import * as topics from './routes/topics.ts'

export type EdgeEnv = { Bindings: HttpBindings }

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
  app.openapi(service.relaysRoute, service.listRelays(edge))
  app.openapi(service.livezRoute, service.livez)
  app.openapi(service.readyzRoute, service.readyz(edge))
  app.openapi(service.metricsRoute, service.metrics(edge))
  for (const path of service.PAGES) app.get(path, service.page)
  app.doc31('/openapi.json', { openapi: '3.1.0', info: { title: 'Baton', version: '1' } })

  refuseOtherMethods(app)
  app.notFound(() => problemResponse(new Problem(404, 'not_found', 'there is nothing here')))
  app.onError((error) => {
    if (error instanceof Problem) return problemResponse(error)
    if (error instanceof BatonError) return problemResponse(toProblem(error))
    if (error instanceof HTTPException) {
      return problemResponse(new Problem(error.status, 'invalid', 'the request cannot be read'))
    }
    edge.log.error({ err: error }, 'request.failed')
    return problemResponse(new Problem(500, 'internal', 'something went wrong here; it has been logged'))
  })
  return app
}

/** Every path answers OPTIONS, and a method it does not know with 405; both name what it does know. */
function refuseOtherMethods(app: OpenAPIHono<EdgeEnv>): void {
  const methods = new Map<string, Set<string>>()
  for (const { path, method } of app.routes) {
    if (method === 'ALL') continue
    methods.set(path, (methods.get(path) ?? new Set(['OPTIONS'])).add(method))
  }
  for (const [path, known] of methods) {
    if (known.has('GET')) known.add('HEAD')
    const allow = [...known].sort().join(', ')
    app.all(path, (c) => {
      if (c.req.method === 'OPTIONS') return c.body(null, 204, { allow })
      throw new Problem(405, 'method_not_allowed', `this path knows ${allow}`, { allow })
    })
  }
}
