import { describe, expect, test } from 'vitest'
import { appVariables } from '@baton/service/app-variables'
import { effectiveConfig } from './effective-config.ts'

const all = Object.assign({}, ...Object.values(appVariables)) as typeof appVariables.watchdog
const of = (environment: Record<string, string>, name: string) =>
  effectiveConfig(environment, { ...all, BATON_TOKEN: all.BATON_WEBHOOK_SECRET }).find((one) => one.name === name)

describe('what an environment comes to', () => {
  test('says what was given and what is the default; an empty variable is an unset one', () => {
    const environment = { BATON_QUIET_MS: '5', BATON_STALL_MS: '' }
    expect(of(environment, 'BATON_QUIET_MS')).toEqual({ name: 'BATON_QUIET_MS', value: '5', from: 'environment' })
    expect(of(environment, 'BATON_STALL_MS')).toEqual({ name: 'BATON_STALL_MS', value: '3600000', from: 'default' })
    expect(of(environment, 'BATON_WEBHOOK_URL')).toEqual({ name: 'BATON_WEBHOOK_URL', value: null, from: 'default' })
  })

  test.each([
    ['BATON_NATS_URL', 'nats://me:hush@one:4222,nats://hush@two', 'nats://[hidden]@one:4222,nats://[hidden]@two'],
    ['BATON_WEBHOOK_SECRET', 'hush', '[hidden]'],
    ['BATON_WEBHOOK_URL', 'https://hooks.example/T1/hush?k=hush', 'https://hooks.example/[hidden]'],
    ['BATON_WEBHOOK_URL', 'https://hush@hooks.example/', 'https://hooks.example'],
    ['BATON_TOKEN', 'hush', '[hidden]'],
    ['BATON_JWT_KEY_FILE', '/etc/baton/key.pem', '/etc/baton/key.pem'],
  ])('hides what lets somebody in: %s', (name, value, shown) => {
    expect(of({ [name]: value }, name)?.value).toBe(shown)
  })
})
