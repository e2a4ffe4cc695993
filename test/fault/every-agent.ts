import type { AgentMode, Script } from '../kit/agents.ts'

/** How the agents of one run resume, together with what the registration says of each. */
export type RunPlan = readonly (Pick<Script, 'idEvery' | 'dataBytes' | 'perSecond' | 'more'> & {
  readonly mode: AgentMode
  readonly resume: string
})[]

/**
 * Every way in which an agent may serve one who comes back, one run each; a run of large events that slow readers fall
 * behind; agents that slice, pad and keep alive; and at last several of them in one run. Agents whose ids say nothing
 * about what they send again are registered as what they are.
 */
export const everyAgent: readonly RunPlan[] = [
  [{ mode: 'id', resume: 'auto', perSecond: 50, dataBytes: 4096 }],
  [{ mode: 'id', resume: 'auto', perSecond: 40, idEvery: 3 }],
  [{ mode: 'id', resume: 'last-event-id', perSecond: 40, more: { commentMs: '1000' } }],
  [{ mode: 'replay', resume: 'replay', perSecond: 40, more: { eol: 'crlf', pingMs: '1500' } }],
  [{ mode: 'replay', resume: 'auto', perSecond: 40, idEvery: 0 }],
  [{ mode: 'window', resume: 'replay', perSecond: 20, more: { garbageEvery: '5' } }],
  [{ mode: 'none', resume: 'none', perSecond: 40 }],
  [{ mode: 'none', resume: 'auto', perSecond: 20, idEvery: 0 }],
  [
    { mode: 'id', resume: 'auto', perSecond: 20, more: { slice: '1' } },
    { mode: 'replay', resume: 'replay', perSecond: 10, idEvery: 0 },
    { mode: 'id', resume: 'auto', perSecond: 0.2 },
  ],
]
