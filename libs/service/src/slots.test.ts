import { describe, expect, test } from 'vitest'
import { Slots } from './slots.ts'

describe('slots', () => {
  test('let so many in at once, the others in the order they came', async () => {
    const slots = new Slots(1)
    const never = new AbortController().signal
    const giveBack = await slots.take(never)
    const order: number[] = []
    const later = [1, 2].map(async (number) => {
      const back = await slots.take(never)
      order.push(number)
      back()
    })
    expect(slots.waiting).toBe(2)
    giveBack()
    giveBack()
    await Promise.all(later)
    expect(order).toEqual([1, 2])
    ;(await slots.take(never))()
  })

  test('who leaves the queue costs nobody a turn', async () => {
    const slots = new Slots(1)
    const never = new AbortController().signal
    const giveBack = await slots.take(never)
    const leaving = new AbortController()
    const left = slots.take(leaving.signal)
    const stays = slots.take(never)
    leaving.abort(new Error('left'))
    await expect(left).rejects.toThrow('left')
    giveBack()
    ;(await stays)()
    expect(slots.waiting).toBe(0)
  })

  test('give the slot of failed work to the next', async () => {
    const slots = new Slots(1)
    const failing = slots.use(() => Promise.reject(new Error('failed')))
    const next = slots.use(() => Promise.resolve('done'))
    await expect(failing).rejects.toThrow('failed')
    expect(await next).toBe('done')
  })
})
