import type { MiddlewareHandler } from 'hono'
import { BatonError } from '@baton/core/errors'
import type { EdgeEnv } from './app.ts'
import { isFrom } from './asked.ts'

/**
 * `format` and `limit` mean the same on every route that reads, and `from` nearly so. A malformed one is refused also by
 * a route that makes nothing of it: whoever wrote it should hear of it, not wonder why nothing happens.
 */
export const refuseMalformed: MiddlewareHandler<EdgeEnv> = async (c, next) => {
  const { format = [], limit = [], from = [] } = c.req.queries()
  if (format.some((text) => text !== 'plain' && text !== 'envelope')) {
    throw new BatonError('invalid', 'format: must be plain or envelope')
  }
  if (limit.some((text) => !/^\d{1,15}$/.test(text) || Number(text) === 0)) {
    throw new BatonError('invalid', 'limit: must be a whole number from 1')
  }
  if (!from.every(isFrom)) {
    throw new BatonError(
      'invalid',
      'from: must be start, now, a number, -<count>, or of topics and sets a time (RFC 3339)',
    )
  }
  return next()
}
