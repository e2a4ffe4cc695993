import { OPEN } from './authenticate.ts'

/** As much of an OpenAPI document as is looked at here. */
type Operation = { security?: object[]; responses?: Record<string, unknown> }
type Document = { components?: object; paths?: Record<string, object> }

const METHODS = new Set(['get', 'post'])
const refused = (description: string) => ({
  description,
  content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
})

/** Adds to `/openapi.json` what each route asks for, so that no route has to say it and none can forget. */
export function describeAccess<T extends Document>(document: T, asksForTokens: boolean): T {
  if (!asksForTokens) return document
  const paths = Object.entries(document.paths ?? {}).map(([path, item]) => [
    path,
    Object.fromEntries(
      Object.entries(item).map(([method, operation]) => [
        method,
        METHODS.has(method) ? describe(path, operation as Operation) : (operation as unknown),
      ]),
    ),
  ])
  return {
    ...document,
    components: {
      ...document.components,
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
        cookie: { type: 'apiKey', in: 'cookie', name: 'baton', description: 'The same token, HttpOnly.' },
        ticket: { type: 'apiKey', in: 'query', name: 'ticket', description: 'Made by POST /tickets; opens streams.' },
      },
    },
    paths: Object.fromEntries(paths) as object,
  }
}

function describe(path: string, operation: Operation): Operation {
  if (OPEN.has(path)) return { ...operation, security: [] }
  const ticket = path.endsWith('/events') ? [{ ticket: [] }] : []
  return {
    ...operation,
    security: [{ bearer: [] }, { cookie: [] }, ...ticket],
    responses: {
      ...operation.responses,
      401: refused('No token, or none that is valid here'),
      403: refused('No grant covers this, or a page of this origin may not do it'),
    },
  }
}
