import { BatonError } from '@baton/core/errors'

/** The promise's value, or `unavailable` when it takes longer. What it stands for goes on by itself. */
export async function within<T>(limitMs: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new BatonError('unavailable', `no answer within ${limitMs} ms`)), limitMs)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
