// Code generated from docs/openapi.json by go test ./test/clients -update; DO NOT EDIT.

export interface Ability {
  capability: string;
  fix?: string;
  grade?: string;
  ok: boolean;
  reason?: string;
}

export interface AccountUsage {
  account: string;
  bytes: number;
  limitBytes?: number;
}

export interface AddEgressRules {
  rules: EgressRule[];
}

export interface AddRepository {
  app?: GitHubApp;
  branch?: string;
  name?: string;
  prepareEveryMs?: number;
  secret?: string;
  url: string;
}

export interface AdoptedEvent {
  cause: string;
  commands: number;
  from: string;
  state: "starting" | "running" | "paused" | "ended" | "lost";
  to: string;
}

export interface Answer {
  question: string;
  reply: string;
}

export interface AnswerEgressAsk {
  action: "allow" | "deny";
  remember?: boolean;
}

export interface ArchiveReport {
  fix?: string;
  location: string;
  ok: boolean;
  reason?: string;
}

export interface Attempt {
  artifact: CodeArtifact;
  diagnosis?: Diagnosis;
  endedAt?: string;
  n: number;
  result?: ExecutionResult;
  sandbox?: string;
  startedAt: string;
}

export interface AttemptEvent {
  artifact?: CodeArtifact;
  attempt: number;
  diagnosis?: Diagnosis;
  isolation?: string;
  of: number;
  result?: ExecutionResult;
  sandbox?: string;
  unenforced?: Unenforced[];
  why?: string;
}

export interface BackendReport {
  abilities: Ability[];
  backend: string;
}

export interface BestOf {
  depth?: number;
  first?: boolean;
  of: number;
  vary?: Variant[];
}

export interface BrowserControl {
  expiresAt: string;
  token: string;
}

export interface BrowserEvent {
  action: "move" | "down" | "up" | "wheel" | "key" | "text" | "open" | "back";
  button?: string;
  clicks?: number;
  code?: string;
  dx?: number;
  dy?: number;
  key?: string;
  keyCode?: number;
  modifiers?: number;
  text?: string;
  x?: number;
  y?: number;
}

export interface BrowserFrame {
  height: number;
  image: string;
  target: string;
  title?: string;
  url?: string;
  width: number;
}

export interface BrowserInput {
  events: BrowserEvent[];
  target: string;
  token: string;
}

export interface Budget {
  costUsd?: number;
  outputBytes?: number;
  steps?: number;
  tokens?: number;
  wallMs?: number;
}

export interface BuildFiles {
  id: string;
}

export interface BuildLine {
  error?: Problem;
  output?: string;
  snapshot?: Snapshot;
  step?: string;
  type: "step" | "output" | "waiting" | "done" | "error";
}

export interface BuildTemplate {
  args?: Record<string, string>;
  dockerfile?: string;
  egress?: EgressPolicy;
  files?: string;
  from?: string;
  idePort?: number;
  isolation?: string;
  limits?: Limits;
  name: string;
  noCache?: boolean;
  preset?: "browser" | "ide";
  privateTraffic?: boolean;
  ready?: string;
  secrets?: Record<string, string>;
  start?: string;
  tags?: string[];
  target?: string;
  yaml?: string;
}

export interface Candidate {
  agent?: string;
  agrees?: number;
  cautions?: number;
  chosen?: boolean;
  compared?: number;
  copies?: Record<string, string>;
  costUsd?: number;
  failing?: number;
  fails?: number;
  files?: number;
  judged?: boolean;
  level?: number;
  lines?: number;
  lint?: string;
  model?: string;
  ms?: number;
  n: number;
  oldOnly?: boolean;
  outcome?: string;
  parent?: number;
  passed: boolean;
  regressions?: number;
  rounds?: number;
  state: string;
  steps?: number;
  strategy?: string;
  temperature?: number;
  tokens?: number;
  unpriced?: number;
  why?: string;
  workspace?: string;
}

export interface Caution {
  line: number;
  path: string;
  uses: string;
}

export interface Ceilings {
  cpus?: number;
  egress?: EgressPolicy;
  isolations?: string[];
  memoryBytes?: number;
  sandboxes?: number;
  ttlMs?: number;
}

export interface Check {
  command: string;
  name: string;
}

export interface CheckRepository {
  app?: GitHubApp;
  secret?: string;
  url: string;
}

export interface CheckResult {
  name: string;
  output?: string;
  passed: boolean;
}

export interface CodeArtifact {
  compile?: string;
  expect?: string[];
  files: File[];
  install?: string;
  installTimeoutMs?: number;
  language: string;
  note?: string;
  output?: string;
  run: string;
  runTimeoutMs?: number;
  shell?: string;
}

export interface CodeContext {
  dir: string;
  id: string;
  language: string;
}

export interface CodeEvent {
  count?: number;
  formats?: Record<string, unknown>;
  main?: boolean;
  name?: string;
  text?: string;
  traceback?: string;
  type: string;
  value?: string;
}

export interface CollectRequest {
  dryRun?: boolean;
  olderThanMs?: number;
}

export interface Collected {
  bytes: number;
  dryRun: boolean;
  items: CollectedItem[];
}

export interface CollectedItem {
  bytes: number;
  error?: Error;
  name: string;
  part: string;
  why: string;
}

export interface CommandDefaults {
  command?: string[];
  dir?: string;
  entrypoint?: string[];
  env?: Record<string, string>;
  user?: string;
  userRecord?: UserRecord;
}

export interface CompactEvent {
  agent?: string;
  candidate?: number;
  step: number;
  tokensAfter: number;
  tokensBefore: number;
}

export interface ConsoleLink {
  expiresAt: string;
  url: string;
}

export interface ContextFile {
  bytes: number;
  commit: string;
  path: string;
  title: string;
  unusable?: string;
}

export interface CreateCodeContext {
  dir?: string;
  language?: string;
}

export interface CreateKey {
  account: string;
  ceilings?: Ceilings;
  expiresInMs?: number;
  isolation?: string;
  name?: string;
  role?: string;
}

export interface CreateRun {
  attempts?: number;
  egress?: EgressPolicy;
  env?: Record<string, string>;
  files?: InputFile[];
  installTimeoutMs?: number;
  isolation?: string;
  limits?: Limits;
  model?: string;
  models?: Models;
  request: string;
  runTimeoutMs?: number;
  schema?: unknown;
  setupEgress?: EgressPolicy;
  template?: string;
}

export interface CreateSandbox {
  autoResume?: boolean;
  egress?: EgressPolicy;
  env?: Record<string, string>;
  headers?: HeaderRule[];
  idePort?: number;
  isolation?: string;
  labels?: Record<string, string>;
  limits?: Limits;
  onExpiry?: string;
  privateTraffic?: boolean;
  secrets?: SecretGrant[];
  task?: string;
  template?: string;
  ttlMs?: number;
  workspace?: string;
}

export interface CreateSnapshot {
  copyMemory?: boolean;
  defaultEgress?: EgressPolicy;
  filesOnly?: boolean;
  name?: string;
  onRestore?: string;
  tags?: string[];
}

export interface CreateTask {
  artifact?: CodeArtifact;
  attempts?: number;
  files?: InputFile[];
  installTimeoutMs?: number;
  keep?: boolean;
  model?: string;
  models?: Models;
  record?: string;
  replay?: Replay;
  repo?: RepoTask;
  request?: string;
  runTimeoutMs?: number;
  sandbox?: CreateSandbox;
  schema?: unknown;
  setupEgress?: EgressPolicy;
  setupSecrets?: SecretGrant[];
}

export interface CreateTemplate {
  defaultEgress?: EgressPolicy;
  egress?: EgressPolicy;
  env?: Record<string, string>;
  from?: string;
  isolation?: string;
  limits?: Limits;
  name: string;
  onRestore?: string;
  run?: string[];
  timeoutMs?: number;
}

export interface CreateWorkspace {
  name?: string;
  quotaBytes?: number;
  shared?: boolean;
}

export interface CreatedKey {
  account: string;
  ceilings?: Ceilings;
  createdAt: string;
  expiresAt?: string;
  hint: string;
  id: string;
  isolation?: string;
  name?: string;
  person?: Person;
  revokedAt?: string;
  role: string;
  secret: string;
}

export interface DaemonInfo {
  dataDir: string;
  forges?: string;
  leaseMs?: number;
  models?: string;
  node?: string;
  owner: string;
  pid: number;
  sandboxes: number;
  settings: DaemonSettings;
  tasks: number;
  url?: string;
  version: Version;
  warm: number;
  warmWanted: number;
}

export interface DaemonSettings {
  idleMs?: number;
  logLevel?: string;
}

export interface DebugRequest {
  answers?: Answer[];
  artifact: CodeArtifact;
  known?: KnownFix[];
  plan: ExecutionPlan;
  result: ExecutionResult;
  tried?: CodeArtifact[];
}

export interface DeliverTask {
  draft?: boolean;
  mergeRequest?: boolean;
  push?: boolean;
  remote?: string;
  remotes?: Record<string, string>;
  stacked?: boolean;
  target?: string;
}

export interface Delivery {
  branch?: string;
  commit?: string;
  created?: boolean;
  draft?: boolean;
  error?: Error;
  forge?: string;
  item?: string;
  number?: number;
  policy?: PolicyField[];
  pushed?: string;
  refused?: PolicyRefusal[];
  target?: string;
  url?: string;
}

export interface DeliveryPolicy {
  allow?: string[];
  branch: string;
  draft?: boolean;
  forbidden: string[];
  maxFiles: number;
  maxLines: number;
  protected: string[];
  targets?: string[];
}

export interface Destroyed {
  proof: Proof;
  sandbox: Provisioned;
}

export interface Diagnosis {
  artifact?: CodeArtifact;
  category: string;
  cause: string;
  question?: string;
}

export interface DiskPart {
  bytes: number;
  count: number;
  limitBytes?: number;
  name: string;
  reclaimableBytes: number;
}

export interface DiskUsage {
  accounts: AccountUsage[];
  bytes: number;
  dataDir: string;
  freeBytes: number;
  parts: DiskPart[];
  reclaimableBytes: number;
  totalBytes: number;
}

export interface Doctor {
  auto: string;
  autoWhy: string;
  backends: BackendReport[];
  dataDir: string;
  forges?: ForgeReport[];
  kernel: string;
  layerArchive?: ArchiveReport;
  models: ModelReport[];
  store?: string;
  template: TemplateReport;
  user: string;
  version: Version;
}

export interface Document {
  name: string;
  text: string;
  version?: number;
}

export interface DrainNode {
  force?: boolean;
}

export interface DrainedNode {
  already?: boolean;
  ended?: number;
  moves?: SandboxMove[];
  node: FleetNode;
  sandboxes: string[];
  work?: WorkMove[];
}

export interface EgressAsk {
  at: string;
  decision: EgressDecision;
  expires: string;
  id: string;
}

export interface EgressDecision {
  account?: string;
  address?: string;
  ask?: string;
  at: string;
  cached?: boolean;
  class?: "" | "passthrough" | "tcp";
  commands?: string[];
  count?: number;
  durationMs?: number;
  hint?: string;
  host: string;
  method?: string;
  op: string;
  path?: string;
  port?: number;
  reason?: string;
  received?: number;
  result: "allowed" | "denied" | "failed" | "waiting" | "dropped" | "alarm";
  rule?: string;
  sandbox: string;
  sent?: number;
  seq?: number;
  status?: number;
  task?: string;
}

export interface EgressPolicy {
  ask?: boolean;
  headers?: HeaderRule[];
  maxBytes?: number;
  maxConnections?: number;
  presets?: string[];
  rules?: EgressRule[];
}

export interface EgressPolicyEvent {
  ask?: boolean;
  egress: string;
  presets?: string[];
  ruleCount: number;
  rules?: EgressRule[];
}

export interface EgressRule {
  action: "allow" | "deny";
  class?: "" | "passthrough" | "tcp";
  host: string;
  methods?: string[];
  paths?: string[];
  ports?: string;
  private?: boolean;
  source?: string;
}

export interface Error {
  hint?: string;
  kind: "invalid" | "unauthenticated" | "denied" | "not_found" | "exists" | "conflict" | "unsupported" | "unisolated" | "exhausted" | "timeout" | "canceled" | "unavailable" | "declined" | "internal";
  message: string;
  retryAfterMs?: number;
}

export interface EscalationEvent {
  attempt?: number;
  candidate?: number;
  from: string;
  of?: number;
  role: string;
  to: string;
  why: string;
}

export type Event = EventTaskCreated | EventTaskStarted | EventTaskPlan | EventTaskCode | EventTaskEscalation | EventTaskAttempt | EventTaskPhase | EventTaskOutput | EventTaskResult | EventTaskDiagnosis | EventTaskModel | EventTaskModelRetry | EventTaskStep | EventTaskTier | EventTaskTool | EventTaskSay | EventTaskCandidate | EventTaskCompact | EventTaskTodo | EventTaskLeft | EventTaskResumed | EventTaskWaiting | EventTaskOverlap | EventTaskRetry | EventTaskLessons | EventTaskCancel | EventTaskFinished | EventSandboxState | EventSandboxUpdated | EventSandboxWaiting | EventSandboxSnapshot | EventSandboxForked | EventSandboxAdopted | EventSandboxEgress | EventSandboxEgressPolicy | EventSandboxExec | EventSandboxExecEnd | EventSessionCreated | EventSessionMessage | EventSessionRemoved | EventSessionTurn | EventSessionRestored | EventSessionAnswer | EventSessionState | EventSessionBack | EventSessionForked | EventSessionClosed | EventPlanCreated | EventPlanPlanned | EventPlanState | EventPlanItem | EventPlanEdited | EventPlanAmendment | EventPlanFinished | EventHookReceived | EventHookStarted | EventHookEnded | EventHookComment;

export interface EventHookComment {
  at: string;
  data?: HookEvent;
  seq: number;
  stream: Stream;
  type: "hook.comment";
}

export interface EventHookEnded {
  at: string;
  data?: HookEvent;
  seq: number;
  stream: Stream;
  type: "hook.ended";
}

export interface EventHookReceived {
  at: string;
  data?: HookEvent;
  seq: number;
  stream: Stream;
  type: "hook.received";
}

export interface EventHookStarted {
  at: string;
  data?: HookEvent;
  seq: number;
  stream: Stream;
  type: "hook.started";
}

export interface EventPlanAmendment {
  at: string;
  data?: PlanAmendmentEvent;
  seq: number;
  stream: Stream;
  type: "plan.amendment";
}

export interface EventPlanCreated {
  at: string;
  data?: Plan;
  seq: number;
  stream: Stream;
  type: "plan.created";
}

export interface EventPlanEdited {
  at: string;
  data?: PlanEditedEvent;
  seq: number;
  stream: Stream;
  type: "plan.edited";
}

export interface EventPlanFinished {
  at: string;
  data?: Plan;
  seq: number;
  stream: Stream;
  type: "plan.finished";
}

export interface EventPlanItem {
  at: string;
  data?: PlanItemEvent;
  seq: number;
  stream: Stream;
  type: "plan.item";
}

export interface EventPlanPlanned {
  at: string;
  data?: PlanPlannedEvent;
  seq: number;
  stream: Stream;
  type: "plan.planned";
}

export interface EventPlanState {
  at: string;
  data?: PlanStateEvent;
  seq: number;
  stream: Stream;
  type: "plan.state";
}

export interface EventSandboxAdopted {
  at: string;
  data?: AdoptedEvent;
  seq: number;
  stream: Stream;
  type: "sandbox.adopted";
}

export interface EventSandboxEgress {
  at: string;
  data?: EgressDecision;
  seq: number;
  stream: Stream;
  type: "sandbox.egress";
}

export interface EventSandboxEgressPolicy {
  at: string;
  data?: EgressPolicyEvent;
  seq: number;
  stream: Stream;
  type: "sandbox.egress_policy";
}

export interface EventSandboxExec {
  at: string;
  data?: Exec;
  seq: number;
  stream: Stream;
  type: "sandbox.exec";
}

export interface EventSandboxExecEnd {
  at: string;
  data?: Exec;
  seq: number;
  stream: Stream;
  type: "sandbox.exec_end";
}

export interface EventSandboxForked {
  at: string;
  data?: ForkEvent;
  seq: number;
  stream: Stream;
  type: "sandbox.forked";
}

export interface EventSandboxSnapshot {
  at: string;
  data?: Snapshot;
  seq: number;
  stream: Stream;
  type: "sandbox.snapshot";
}

export interface EventSandboxState {
  at: string;
  data?: SandboxStateEvent;
  seq: number;
  stream: Stream;
  type: "sandbox.state";
}

export interface EventSandboxUpdated {
  at: string;
  data?: UpdatedEvent;
  seq: number;
  stream: Stream;
  type: "sandbox.updated";
}

export interface EventSandboxWaiting {
  at: string;
  data?: WaitingEvent;
  seq: number;
  stream: Stream;
  type: "sandbox.waiting";
}

export interface EventSessionAnswer {
  at: string;
  data?: SessionTurn;
  seq: number;
  stream: Stream;
  type: "session.answer";
}

export interface EventSessionBack {
  at: string;
  data?: SessionBackEvent;
  seq: number;
  stream: Stream;
  type: "session.back";
}

export interface EventSessionClosed {
  at: string;
  data?: Session;
  seq: number;
  stream: Stream;
  type: "session.closed";
}

export interface EventSessionCreated {
  at: string;
  data?: Session;
  seq: number;
  stream: Stream;
  type: "session.created";
}

export interface EventSessionForked {
  at: string;
  data?: SessionForkedEvent;
  seq: number;
  stream: Stream;
  type: "session.forked";
}

export interface EventSessionMessage {
  at: string;
  data?: SessionTurn;
  seq: number;
  stream: Stream;
  type: "session.message";
}

export interface EventSessionRemoved {
  at: string;
  data?: SessionTurn;
  seq: number;
  stream: Stream;
  type: "session.removed";
}

export interface EventSessionRestored {
  at: string;
  data?: SessionRestoredEvent;
  seq: number;
  stream: Stream;
  type: "session.restored";
}

export interface EventSessionState {
  at: string;
  data?: SessionStateEvent;
  seq: number;
  stream: Stream;
  type: "session.state";
}

export interface EventSessionTurn {
  at: string;
  data?: SessionTurn;
  seq: number;
  stream: Stream;
  type: "session.turn";
}

export interface EventTaskAttempt {
  at: string;
  data?: AttemptEvent;
  seq: number;
  stream: Stream;
  type: "task.attempt";
}

export interface EventTaskCancel {
  at: string;
  data?: Record<string, unknown>;
  seq: number;
  stream: Stream;
  type: "task.cancel";
}

export interface EventTaskCandidate {
  at: string;
  data?: Candidate;
  seq: number;
  stream: Stream;
  type: "task.candidate";
}

export interface EventTaskCode {
  at: string;
  data?: AttemptEvent;
  seq: number;
  stream: Stream;
  type: "task.code";
}

export interface EventTaskCompact {
  at: string;
  data?: CompactEvent;
  seq: number;
  stream: Stream;
  type: "task.compact";
}

export interface EventTaskCreated {
  at: string;
  data?: Task;
  seq: number;
  stream: Stream;
  type: "task.created";
}

export interface EventTaskDiagnosis {
  at: string;
  data?: AttemptEvent;
  seq: number;
  stream: Stream;
  type: "task.diagnosis";
}

export interface EventTaskEscalation {
  at: string;
  data?: EscalationEvent;
  seq: number;
  stream: Stream;
  type: "task.escalation";
}

export interface EventTaskFinished {
  at: string;
  data?: Task;
  seq: number;
  stream: Stream;
  type: "task.finished";
}

export interface EventTaskLeft {
  at: string;
  data?: LeftEvent;
  seq: number;
  stream: Stream;
  type: "task.left";
}

export interface EventTaskLessons {
  at: string;
  data?: LessonsEvent;
  seq: number;
  stream: Stream;
  type: "task.lessons";
}

export interface EventTaskModel {
  at: string;
  data?: ModelEvent;
  seq: number;
  stream: Stream;
  type: "task.model";
}

export interface EventTaskModelRetry {
  at: string;
  data?: ModelRetryEvent;
  seq: number;
  stream: Stream;
  type: "task.model_retry";
}

export interface EventTaskOutput {
  at: string;
  data?: OutputEvent;
  seq: number;
  stream: Stream;
  type: "task.output";
}

export interface EventTaskOverlap {
  at: string;
  data?: OverlapEvent;
  seq: number;
  stream: Stream;
  type: "task.overlap";
}

export interface EventTaskPhase {
  at: string;
  data?: PhaseEvent;
  seq: number;
  stream: Stream;
  type: "task.phase";
}

export interface EventTaskPlan {
  at: string;
  data?: ExecutionPlan;
  seq: number;
  stream: Stream;
  type: "task.plan";
}

export interface EventTaskResult {
  at: string;
  data?: AttemptEvent;
  seq: number;
  stream: Stream;
  type: "task.result";
}

export interface EventTaskResumed {
  at: string;
  data?: ResumedEvent;
  seq: number;
  stream: Stream;
  type: "task.resumed";
}

export interface EventTaskRetry {
  at: string;
  data?: RetryEvent;
  seq: number;
  stream: Stream;
  type: "task.retry";
}

export interface EventTaskSay {
  at: string;
  data?: SayEvent;
  seq: number;
  stream: Stream;
  type: "task.say";
}

export interface EventTaskStarted {
  at: string;
  data?: Record<string, unknown>;
  seq: number;
  stream: Stream;
  type: "task.started";
}

export interface EventTaskStep {
  at: string;
  data?: RepoStepEvent;
  seq: number;
  stream: Stream;
  type: "task.step";
}

export interface EventTaskTier {
  at: string;
  data?: TierEvent;
  seq: number;
  stream: Stream;
  type: "task.tier";
}

export interface EventTaskTodo {
  at: string;
  data?: TodoEvent;
  seq: number;
  stream: Stream;
  type: "task.todo";
}

export interface EventTaskTool {
  at: string;
  data?: ToolEvent;
  seq: number;
  stream: Stream;
  type: "task.tool";
}

export interface EventTaskWaiting {
  at: string;
  data?: WaitingEvent;
  seq: number;
  stream: Stream;
  type: "task.waiting";
}

export interface ExampleDelivery {
  branch: string;
  draft?: boolean;
  of: string;
  target?: string;
}

export interface Exec {
  args: string[];
  argsBytes?: number;
  dir?: string;
  endedAt?: string;
  exit?: Exit;
  id: string;
  outputBytes: number;
  pid?: number;
  sandbox: string;
  startedAt: string;
  state: "running" | "exited" | "unknown";
  timeoutMs?: number;
  user: string;
}

export interface ExecOutput {
  data: string;
  offset: number;
  stream: string;
}

export interface ExecRequest {
  args: string[];
  dir?: string;
  env?: Record<string, string>;
  pty?: PTYSize;
  stdin?: boolean;
  tag?: string;
  timeoutMs?: number;
  user?: string;
}

export interface ExecuteRequest {
  code: string;
  language?: string;
  timeoutSeconds?: number;
}

export interface Executed {
  cause?: string;
  exec: string;
  exitCode: number;
  ms: number;
  signal?: string;
  stderr: string;
  stderrBytes: number;
  stdout: string;
  stdoutBytes: number;
  truncated?: boolean;
}

export interface ExecutionPlan {
  checks?: Check[];
  compile?: string;
  dependencies?: string[];
  files?: string[];
  inputs?: InputFile[];
  language: string;
  output: string;
  parameters?: Record<string, string>;
  run?: string;
  schema?: unknown;
  shell: string;
  task: string;
}

export interface ExecutionResult {
  category?: string;
  cautions?: Caution[];
  checks?: CheckResult[];
  compileMs?: number;
  createMs?: number;
  detail?: string;
  exit: Exit;
  installMs?: number;
  isolation?: string;
  leftOut?: string[];
  missing?: string;
  ok: boolean;
  outputFiles?: File[];
  phase: string;
  runMs?: number;
  sandbox?: string;
  stderr: string;
  stderrBytes: number;
  stdout: string;
  stdoutBytes: number;
}

export interface Exit {
  cause?: string;
  code: number;
  signal?: string;
}

export interface FailureCount {
  attempts: number;
  category: string;
  tasks: number;
}

export interface File {
  base64?: string;
  content: string;
  executable?: boolean;
  path: string;
}

export interface FileChange {
  added: number;
  binary?: boolean;
  deleted: number;
  oldPath?: string;
  path: string;
  size?: number;
  status: string;
  test?: boolean;
}

export interface FileInfo {
  group?: string;
  mode: number;
  modifiedAt?: string;
  name: string;
  owner?: string;
  path: string;
  size: number;
  target?: string;
  type: string;
}

export interface FilePolicy {
  offLimits?: string[];
  readOnly?: string[];
  writable?: string[];
}

export interface Fleet {
  already?: boolean;
  initialized: boolean;
  nodes: FleetNode[];
  self: string;
}

export interface FleetNode {
  address?: string;
  beatAt: string;
  capacity: NodeCapacity;
  gone?: boolean;
  id: string;
  name: string;
  silentMs: number;
  state: string;
  unreached?: string;
}

export interface ForgeReport {
  fix?: string;
  host: string;
  kind: string;
  ok: boolean;
  reason?: string;
  token: string;
}

export interface ForkChild {
  error?: Error;
  sandbox?: Sandbox;
}

export interface ForkEvent {
  children: string[];
  failed?: number;
  kind: "memory" | "files";
  memory?: string;
  pausedMs: number;
}

export interface ForkResult {
  children: ForkChild[];
  kind: "memory" | "files";
  memory?: string;
  memoryWhy?: string;
  parent: string;
  pausedMs: number;
  why?: string;
}

export interface ForkSandbox {
  copyMemory?: boolean;
  count?: number;
  egress?: EgressPolicy;
  env?: Record<string, string>;
  filesOnly?: boolean;
  labels?: Record<string, string>;
  onRestore?: string;
  secrets?: string[];
  ttlMs?: number;
}

export interface ForkWorkspace {
  name?: string;
}

export interface Gate {
  command: string;
  exit: Exit;
  isolation?: string;
  ms: number;
  output?: string;
  outputBytes?: number;
  passed: boolean;
  reused?: ReusedGate;
  sandbox?: string;
  tests?: TestReport;
}

export interface GateCandidate {
  chosen?: boolean;
  command: string;
  from: string;
  why: string;
}

export interface GitHubApp {
  id: number;
  installation?: number;
}

export interface Given {
  lessons: number;
  verified: number;
}

export interface HeaderRule {
  headers: Record<string, string>;
  host: string;
  port?: number;
}

export interface HookAnswer {
  reason?: string;
  task?: string;
}

export interface HookEvent {
  at: string;
  budgetUsd?: number;
  cause: string;
  commentError?: string;
  delivery?: string;
  issue: number;
  outcome?: "verified" | "needs_human" | "declined" | "canceled" | "failed" | "lost" | "answered";
  overBudget?: boolean;
  reason?: string;
  repository: string;
  sender: string;
  state: string;
  task?: string;
  told?: number;
  url?: string;
}

export interface Identity {
  email: string;
  name: string;
}

export interface Image {
  bytes: number;
  command?: string[];
  createdAt: string;
  digest: string;
  dropped?: number;
  entrypoint?: string[];
  env?: string[];
  id: string;
  isolation?: string;
  layers: string[];
  name?: string;
  platform: string;
  reference: string;
  skipped?: number;
  usedAt: string;
  user: string;
  workingDir?: string;
}

export interface ImageLine {
  error?: Problem;
  image?: Image;
  step?: string;
  type: "step" | "output" | "waiting" | "done" | "error";
}

export interface ImageMark {
  backend: string;
  cpu?: string;
  guest?: string;
  kernel?: string;
}

export interface InputFile {
  content?: string;
  head?: string;
  path: string;
  size?: number;
}

export interface ItemEvidence {
  acceptance?: string;
  commit?: string;
  costUsd?: number;
  gate?: string;
  id: string;
  ms?: number;
  needs?: string[];
  order?: number;
  request?: string;
  state: string;
  title: string;
  why?: string;
}

export interface ItemTask {
  acceptance?: string;
  branch?: string;
  check?: string;
  delivered?: Delivery;
  item: string;
  items?: ItemEvidence[];
  plan: string;
  stack?: Delivery[];
  stacked?: boolean;
  start?: string;
}

export interface Key {
  account: string;
  ceilings?: Ceilings;
  createdAt: string;
  expiresAt?: string;
  hint: string;
  id: string;
  isolation?: string;
  name?: string;
  person?: Person;
  revokedAt?: string;
  role: string;
}

export interface Killed {
  proof: Proof;
  sandbox: Sandbox;
}

export interface KilledExec {
  exec: Exec;
  how: string;
}

export interface KnownFix {
  failure: string;
  fix: string;
}

export interface LeftEvent {
  cut?: boolean;
  why: string;
}

export interface LeftOut {
  files: number;
  path: string;
}

export interface Lesson {
  failure: string;
  fingerprint: string;
  fix: string;
  helped: number;
  id: string;
  learnedAt: string;
  offered: number;
  offeredAt?: string;
  scope: string;
  seen: number;
  task: string;
  vector?: string;
}

export interface LessonOffer {
  by?: string;
  failure: string;
  id: string;
  task: string;
}

export interface LessonStats {
  by?: Record<string, Given>;
  with: Overcome;
  without: Overcome;
}

export interface LessonsEvent {
  attempt: number;
  lessons: LessonOffer[];
}

export interface Library {
  common?: boolean;
  install?: string;
  language: string;
  name: string;
  present: boolean;
  version?: string;
}

export interface Limits {
  cpuTimeMs?: number;
  cpus?: number;
  diskBytes?: number;
  diskWriteRate?: number;
  memoryBytes?: number;
  outputBytes?: number;
  processes?: number;
}

export interface Listener {
  command: string;
  pid: number;
  port: number;
}

export interface MissingCount {
  language?: string;
  name: string;
  tasks: number;
}

export interface ModelEvent {
  agent?: string;
  candidate?: number;
  error?: string;
  model: string;
  ms: number;
  role: string;
  usage?: Usage;
}

export interface ModelReport {
  baseUrl?: string;
  default?: boolean;
  fix?: string;
  model?: string;
  name: string;
  ok: boolean;
  reason?: string;
  source?: string;
}

export interface ModelRetryEvent {
  agent?: string;
  attempt: number;
  candidate?: number;
  error: string;
  model: string;
  of: number;
  role: string;
  waitMs: number;
}

export interface ModelUse {
  calls: number;
  errors: number;
  model: string;
  ms: number;
  usage?: Usage;
}

export interface Models {
  coder?: string;
  debugger?: string;
  large?: string;
  planner?: string;
  small?: string;
}

export interface NodeCapacity {
  clockAheadMs?: number;
  cpus?: number;
  diskFull?: boolean;
  full?: boolean;
  isolations?: string[];
  load?: number;
  memoryBudget?: number;
  memoryPromised?: number;
  noArchive?: boolean;
  restores?: string[];
  sandboxes: number;
  tasks?: number;
  templates?: string[];
  version?: string;
  waiting?: number;
}

export interface NotInstalled {
  instead?: string;
  language?: string;
  program?: string;
  why: string;
}

export interface OutputEvent {
  attempt: number;
  data: string;
  phase: string;
  stream: string;
}

export interface Overcome {
  passes: number;
  tasks: number;
  verified: number;
}

export interface OverlapEvent {
  waits?: boolean;
  with: Workstream[];
}

export interface PTYSize {
  cols: number;
  rows: number;
}

export interface PauseSandbox {
  toDisk?: boolean;
}

export interface Person {
  email: string;
  issuer: string;
  subject: string;
}

export interface PhaseEvent {
  attempt: number;
  command: string;
  phase: string;
}

export interface PhaseTime {
  count: number;
  phase: string;
  totalMs: number;
}

export interface Plan {
  account?: string;
  base?: string;
  branch: string;
  checked?: string;
  commit?: string;
  counts: Record<string, number>;
  createdAt: string;
  delivered?: Delivery;
  endedAt?: string;
  error?: Error;
  follow?: PlanFollow;
  head?: string;
  id: string;
  items?: PlanProgress[];
  key?: string;
  outcome?: "verified" | "needs_human" | "declined" | "canceled" | "failed" | "lost" | "answered";
  owner?: string;
  parallel: number;
  planner?: string;
  receipt?: Receipt;
  rejected?: string[];
  stack?: Delivery[];
  stacked?: boolean;
  startedAt?: string;
  state: "planning" | "proposed" | "queued" | "running" | "paused" | "done";
  task: CreateTask;
  usage?: Usage;
  version: number;
  why?: string;
}

export interface PlanAmendment {
  answer?: string;
  by?: string;
  paths: string[];
  reason?: string;
  why?: string;
}

export interface PlanAmendmentEvent {
  answer?: string;
  by?: string;
  item: string;
  paths: string[];
  reason?: string;
  why?: string;
}

export interface PlanAnswer {
  grant: boolean;
  item: string;
}

export interface PlanCreate {
  approve?: boolean;
  follow?: boolean;
  followRounds?: number;
  items?: PlanItem[];
  parallel?: number;
  stacked?: boolean;
  task: CreateTask;
}

export interface PlanDeliver {
  draft?: boolean;
  follow?: boolean;
  followRounds?: number;
  mergeRequest?: boolean;
  push?: boolean;
  remote?: string;
  remotes?: Record<string, string>;
  stacked?: boolean;
  target?: string;
}

export interface PlanEdit {
  items: PlanItem[];
  version?: number;
}

export interface PlanEditedEvent {
  items: string[];
  version: number;
}

export interface PlanFollow {
  checks?: number;
  comments?: number;
  ended?: string;
  error?: Error;
  ignored?: number;
  retryAt?: string;
  round: number;
  rounds: number;
}

export interface PlanItem {
  acceptance?: string;
  agent?: string;
  context?: string[];
  creates?: string[];
  id: string;
  minutes?: number;
  model?: string;
  needs?: string[];
  request: string;
  title?: string;
  touches?: string[];
}

export interface PlanItemEvent {
  commit?: string;
  item: string;
  phase?: "works" | "merges" | "checks" | "asks";
  state: "pending" | "in_progress" | "completed" | "skipped" | "failed";
  task?: string;
  why?: string;
}

export interface PlanPlannedEvent {
  items?: string[];
  refused?: string;
  try: number;
}

export interface PlanProgress {
  acceptance?: string;
  agent?: string;
  amendments?: PlanAmendment[];
  commit?: string;
  context?: string[];
  creates?: string[];
  endedAt?: string;
  gate?: string;
  id: string;
  minutes?: number;
  model?: string;
  needs?: string[];
  phase?: "works" | "merges" | "checks" | "asks";
  question?: string;
  request: string;
  review?: string;
  startedAt?: string;
  state: "pending" | "in_progress" | "completed" | "skipped" | "failed";
  title?: string;
  touches?: string[];
  tries?: PlanTry[];
  usage?: Usage;
  why?: string;
}

export interface PlanReplan {
  approve?: boolean;
  message?: string;
}

export interface PlanRequest {
  files?: InputFile[];
  schema?: unknown;
  sentence: string;
}

export interface PlanRetry {
  item?: string;
  message?: string;
}

export interface PlanStateEvent {
  state: "planning" | "proposed" | "queued" | "running" | "paused" | "done";
  why?: string;
}

export interface PlanTry {
  base: string;
  check?: string;
  conflicts?: string[];
  endedAt?: string;
  head?: string;
  merged?: string;
  outcome?: "verified" | "needs_human" | "declined" | "canceled" | "failed" | "lost" | "answered";
  start?: string;
  startedAt: string;
  stopped?: string;
  task: string;
  why?: string;
}

export interface PolicyField {
  from: string;
  name: string;
  value: string;
  why?: string;
}

export interface PolicyRefusal {
  path?: string;
  rule: string;
  why: string;
}

export interface PolicySuggestion {
  name: string;
  refused?: string;
  value: string;
  why: string;
}

export interface PortURL {
  expiresAt?: string;
  private?: boolean;
  url: string;
}

export interface Preparation {
  commit?: string;
  endedAt?: string;
  error?: Error;
  failures?: number;
  nextAt?: string;
  owner?: string;
  preparedAt?: string;
  requested?: boolean;
  running?: boolean;
  startedAt?: string;
  task?: string;
}

export interface Problem {
  call?: string;
  detail: string;
  hint?: string;
  kind: "invalid" | "unauthenticated" | "denied" | "not_found" | "exists" | "conflict" | "unsupported" | "unisolated" | "exhausted" | "timeout" | "canceled" | "unavailable" | "declined" | "internal";
  retryAfterMs?: number;
  status: number;
  title: string;
  type: string;
}

export interface Proof {
  how: string;
  killed: number;
  left: number;
}

export interface ProvisionRequest {
  envVars?: Record<string, string>;
  imageId?: string;
  taskId: string;
  ttlSeconds?: number;
}

export interface Provisioned {
  createdAt: string;
  endedAt?: string;
  expiresAt: string;
  imageId: string;
  isolation: string;
  reason?: string;
  sandboxId: string;
  sandboxUrl: string;
  status: "starting" | "running" | "paused" | "ended" | "lost";
  taskId: string;
  ttlSeconds: number;
}

export interface PullImage {
  isolation?: string;
  name?: string;
  reference: string;
  refresh?: boolean;
}

export interface PutDocument {
  ifVersion?: number;
  repository?: string;
  text: string;
  title?: string;
}

export interface Receipt {
  completed: string[];
  processesLeft: number;
  skipped: string[];
}

export interface RefusedChange {
  path: string;
  why: string;
}

export interface Replay {
  attempt: number;
  task: string;
}

export interface ReplyTask {
  attempts?: number;
  budget?: Budget;
  locksMayChange?: boolean;
  reply: string;
  rounds?: number;
  testsMayChange?: boolean;
}

export interface RepoResult {
  agentSession?: string;
  applied?: boolean;
  base?: string;
  before?: Gate;
  branch?: string;
  candidates?: Candidate[];
  cautions?: Caution[];
  checkpoint?: string;
  commit?: string;
  copies?: Record<string, string>;
  delivery?: Delivery;
  files?: FileChange[];
  head?: string;
  ignored?: number;
  leftOut?: LeftOut[];
  notInstalled?: NotInstalled[];
  offLimits?: number;
  partial?: boolean;
  refused?: RefusedChange[];
  repositories?: RepositoryResult[];
  rounds?: Round[];
  stack?: Delivery[];
  stopped?: string;
  summary?: string;
  title?: string;
  todo?: TodoItem[];
  verify?: string;
  verifyFrom?: string;
  wanted?: WantedFile[];
  workspace?: string;
}

export interface RepoStepEvent {
  candidate?: number;
  detail?: string;
  done?: boolean;
  error?: string;
  gate?: Gate;
  line?: string;
  ms?: number;
  repository?: string;
  round?: number;
  step: string;
}

export interface RepoTask {
  agent?: string;
  also?: TaskRepository[];
  author: Identity;
  best?: BestOf;
  budget?: Budget;
  context?: Document[];
  documents?: string[];
  draft?: boolean;
  filePolicy?: FilePolicy;
  fresh?: boolean;
  gateOnly?: boolean;
  isolationFrom?: string;
  issue?: string;
  item?: ItemTask;
  locksMayChange?: boolean;
  mergeRequest?: boolean;
  mutant?: string;
  name?: string;
  noSetup?: boolean;
  overlap?: string;
  passes?: number;
  prepareOnly?: boolean;
  push?: boolean;
  ref?: string;
  remote?: string;
  rounds?: number;
  strict?: boolean;
  target?: string;
  testsMayChange?: boolean;
  until?: string;
  url: string;
  verify?: string;
  workspace?: string;
}

export interface Repository {
  account?: string;
  app?: GitHubApp;
  branch?: string;
  bytes?: number;
  commit?: string;
  createdAt: string;
  endedAt?: string;
  error?: Error;
  fetchMs?: number;
  fetchedAt?: string;
  forge?: string;
  hook?: RepositoryHook;
  id: string;
  isolation?: string;
  key: string;
  lfsBytes?: number;
  lfsFiles?: number;
  name: string;
  objects?: number;
  owner?: string;
  policy?: RepositoryPolicy;
  preparation?: Preparation;
  prepareEveryMs?: number;
  secret?: string;
  state: string;
  subject?: string;
  submodules?: number;
  url: string;
  verify?: string;
}

export interface RepositoryAccess {
  defaultBranch?: string;
  forge?: string;
  page?: string;
  protected?: string[];
  rights: RepositoryRight[];
}

export interface RepositoryDetected {
  commit: string;
  gates: GateCandidate[];
  noGate?: string;
  policy: DeliveryPolicy;
  setup: string[];
  setupFrom: string[];
}

export interface RepositoryHook {
  agent?: string;
  command?: string;
  forge?: string;
  label?: string;
  model?: string;
  people: string[];
  tasksPerDay?: number;
  usdPerDay?: number;
  usdPerTask?: number;
}

export interface RepositoryHookState {
  events: HookEvent[];
  hook?: RepositoryHook;
  secret?: string;
  steps?: string[];
  tasksToday: number;
  url: string;
  usdToday: number;
}

export interface RepositoryLine {
  error?: Problem;
  progress?: string;
  repository?: Repository;
  type: "step" | "output" | "waiting" | "done" | "error";
}

export interface RepositoryPolicy {
  draft?: boolean;
  exists?: string;
  forbidden?: string[];
  maxFiles?: number;
  maxLines?: number;
  prefix?: string;
  protected?: string[];
  target?: string;
}

export interface RepositoryPolicyState {
  deliveries: ExampleDelivery[];
  fields: PolicyField[];
  notChecked?: string;
  policy?: RepositoryPolicy;
  refused?: PolicyRefusal[];
  repository?: string;
  suggestions: PolicySuggestion[];
}

export interface RepositoryResult {
  base?: string;
  commit?: string;
  delivery?: Delivery;
  head?: string;
  name: string;
  verify?: string;
}

export interface RepositoryRight {
  fix?: string;
  ok: boolean;
  reason?: string;
  right: string;
}

export interface RepositorySchedule {
  prepareEveryMs: number;
}

export interface RepositorySettings {
  app?: GitHubApp;
  isolation?: string;
  secret?: string;
  verify?: string;
}

export interface ResumedEvent {
  cut: number;
  daemon: number;
  move?: TaskMove;
  ms: number;
  pausedMs: number;
  steps: number;
}

export interface RetryEvent {
  attempt: number;
  candidate?: number;
  error: string;
  nextAt: string;
  of: number;
  waitMs: number;
  what: string;
}

export interface ReusedGate {
  at: string;
  commit: string;
  task: string;
}

export interface RoleCalls {
  calls: number;
  errors?: number;
  model: string;
  ms: number;
  role: string;
  usage?: Usage;
}

export interface Round {
  acceptance?: Gate;
  agent?: string;
  disguised?: Gate;
  gate?: Gate;
  head?: string;
  model?: string;
  ms: number;
  mutant?: Gate;
  n: number;
  noDisguise?: boolean;
  original?: Gate;
  steps: number;
  stop: string;
  why?: string;
  without?: Gate;
}

export interface RunCode {
  code: string;
  context?: string;
  env?: Record<string, string>;
  language?: string;
}

export type RunEvent = RunEventCreated | RunEventStarted | RunEventPlan | RunEventCode | RunEventEscalation | RunEventAttempt | RunEventPhase | RunEventOutput | RunEventResult | RunEventDiagnosis | RunEventModel | RunEventModelRetry | RunEventStep | RunEventTier | RunEventTool | RunEventSay | RunEventCandidate | RunEventCompact | RunEventTodo | RunEventLeft | RunEventResumed | RunEventWaiting | RunEventOverlap | RunEventRetry | RunEventLessons | RunEventCancel | RunEventVerdict;

export interface RunEventAttempt {
  at: string;
  data?: AttemptEvent;
  seq: number;
  stream: Stream;
  type: "attempt";
}

export interface RunEventCancel {
  at: string;
  data?: Record<string, unknown>;
  seq: number;
  stream: Stream;
  type: "cancel";
}

export interface RunEventCandidate {
  at: string;
  data?: Candidate;
  seq: number;
  stream: Stream;
  type: "candidate";
}

export interface RunEventCode {
  at: string;
  data?: AttemptEvent;
  seq: number;
  stream: Stream;
  type: "code";
}

export interface RunEventCompact {
  at: string;
  data?: CompactEvent;
  seq: number;
  stream: Stream;
  type: "compact";
}

export interface RunEventCreated {
  at: string;
  data?: Task;
  seq: number;
  stream: Stream;
  type: "created";
}

export interface RunEventDiagnosis {
  at: string;
  data?: AttemptEvent;
  seq: number;
  stream: Stream;
  type: "diagnosis";
}

export interface RunEventEscalation {
  at: string;
  data?: EscalationEvent;
  seq: number;
  stream: Stream;
  type: "escalation";
}

export interface RunEventLeft {
  at: string;
  data?: LeftEvent;
  seq: number;
  stream: Stream;
  type: "left";
}

export interface RunEventLessons {
  at: string;
  data?: LessonsEvent;
  seq: number;
  stream: Stream;
  type: "lessons";
}

export interface RunEventModel {
  at: string;
  data?: ModelEvent;
  seq: number;
  stream: Stream;
  type: "model";
}

export interface RunEventModelRetry {
  at: string;
  data?: ModelRetryEvent;
  seq: number;
  stream: Stream;
  type: "model_retry";
}

export interface RunEventOutput {
  at: string;
  data?: OutputEvent;
  seq: number;
  stream: Stream;
  type: "output";
}

export interface RunEventOverlap {
  at: string;
  data?: OverlapEvent;
  seq: number;
  stream: Stream;
  type: "overlap";
}

export interface RunEventPhase {
  at: string;
  data?: PhaseEvent;
  seq: number;
  stream: Stream;
  type: "phase";
}

export interface RunEventPlan {
  at: string;
  data?: ExecutionPlan;
  seq: number;
  stream: Stream;
  type: "plan";
}

export interface RunEventResult {
  at: string;
  data?: AttemptEvent;
  seq: number;
  stream: Stream;
  type: "result";
}

export interface RunEventResumed {
  at: string;
  data?: ResumedEvent;
  seq: number;
  stream: Stream;
  type: "resumed";
}

export interface RunEventRetry {
  at: string;
  data?: RetryEvent;
  seq: number;
  stream: Stream;
  type: "retry";
}

export interface RunEventSay {
  at: string;
  data?: SayEvent;
  seq: number;
  stream: Stream;
  type: "say";
}

export interface RunEventStarted {
  at: string;
  data?: Record<string, unknown>;
  seq: number;
  stream: Stream;
  type: "started";
}

export interface RunEventStep {
  at: string;
  data?: RepoStepEvent;
  seq: number;
  stream: Stream;
  type: "step";
}

export interface RunEventTier {
  at: string;
  data?: TierEvent;
  seq: number;
  stream: Stream;
  type: "tier";
}

export interface RunEventTodo {
  at: string;
  data?: TodoEvent;
  seq: number;
  stream: Stream;
  type: "todo";
}

export interface RunEventTool {
  at: string;
  data?: ToolEvent;
  seq: number;
  stream: Stream;
  type: "tool";
}

export interface RunEventVerdict {
  at: string;
  data?: Task;
  seq: number;
  stream: Stream;
  type: "verdict";
}

export interface RunEventWaiting {
  at: string;
  data?: WaitingEvent;
  seq: number;
  stream: Stream;
  type: "waiting";
}

export interface Sandbox {
  account?: string;
  autoResume?: boolean;
  bootId?: string;
  build?: string;
  createdAt: string;
  defaults?: CommandDefaults;
  egress: string;
  egressPolicy?: EgressPolicy;
  endedAt?: string;
  envNames?: string[];
  expiresAt: string;
  expiresBootMs?: number;
  held?: boolean;
  id: string;
  idePort?: number;
  identities?: string[];
  isolation: string;
  isolationWhy?: string;
  key?: string;
  labels?: Record<string, string>;
  limits: Limits;
  lineage?: string;
  maxEgress?: EgressPolicy;
  maxTtlMs?: number;
  memoryKills?: number;
  moving?: boolean;
  node?: string;
  onExpiry?: string;
  onRestore?: string;
  owner?: string;
  parent?: string;
  privateTraffic?: boolean;
  provision?: ProvisionRequest;
  reason?: string;
  secrets?: SecretGrant[];
  snapshot?: string;
  state: "starting" | "running" | "paused" | "ended" | "lost";
  task?: string;
  template: string;
  unenforced?: Unenforced[];
  waiting?: WaitingEvent;
  workspace?: string;
}

export interface SandboxMove {
  awayMs?: number;
  reason?: string;
  resumed?: boolean;
  sandbox: string;
  state: string;
  to?: string;
}

export interface SandboxStateEvent {
  proof?: Proof;
  reason?: string;
  state: "starting" | "running" | "paused" | "ended" | "lost";
}

export interface SayEvent {
  agent?: string;
  candidate?: number;
  cut?: boolean;
  round: number;
  step: number;
  text: string;
}

export interface SealedWorkspace {
  layer?: string;
  usage: WorkspaceUsage;
  workspace: Workspace;
}

export interface Secret {
  account?: string;
  bindings: SecretBinding[];
  budgets?: SecretBudget[];
  command?: string[];
  createdAt: string;
  forHeaders?: boolean;
  from?: string;
  id?: string;
  lifetimeMs?: number;
  metadata?: Record<string, string>;
  name: string;
  signer?: string;
  source: string;
  spent?: SecretSpent;
  updatedAt: string;
  usedAt?: string;
  uses?: number;
  version?: number;
}

export interface SecretAmounts {
  microUsd: number;
  requests: number;
  tokens: number;
}

export interface SecretBinding {
  git?: SecretGit;
  host: string;
  in: SecretPlace;
  methods?: string[];
  model?: string;
  paths?: string[];
  port?: number;
  scheme?: string;
}

export interface SecretBudget {
  amount: number;
  per?: string;
  unit: string;
}

export interface SecretGit {
  delete?: boolean;
  fetch?: boolean;
  force?: boolean;
  push?: string[];
  repository: string;
}

export interface SecretGrant {
  endsAt?: string;
  env?: string;
  lifetimeMs?: number;
  name: string;
  revoked?: boolean;
}

export interface SecretPlace {
  kind: string;
  name?: string;
}

export interface SecretSet {
  bindings: SecretBinding[];
  budgets?: SecretBudget[];
  command?: string[];
  forHeaders?: boolean;
  from?: string;
  lifetimeMs?: number;
  metadata?: Record<string, string>;
  resetBudget?: boolean;
  signer?: string;
  source?: string;
  value?: string;
  version?: number;
}

export interface SecretSpent {
  tasks: SecretTaskSpent[];
  today: SecretAmounts;
  total: SecretAmounts;
}

export interface SecretTaskSpent {
  at: string;
  microUsd: number;
  requests: number;
  task: string;
  tokens: number;
}

export interface SecretUsage {
  estimated?: boolean;
  inputTokens: number;
  microUsd: number;
  model?: string;
  outputTokens: number;
  pricedAs?: string;
}

export interface SecretUse {
  account?: string;
  at: string;
  binding?: number;
  broken?: boolean;
  budget?: string;
  commands?: string[];
  for?: string;
  header?: string;
  host: string;
  method: string;
  missed?: number;
  path: string;
  port: number;
  purpose?: string;
  received?: number;
  refused?: string;
  sandbox: string;
  scheme: string;
  secret: string;
  sent?: number;
  seq?: number;
  status?: number;
  task?: string;
  usage?: SecretUsage;
}

export interface Session {
  account?: string;
  at: number;
  base?: string;
  commit?: string;
  createdAt: string;
  delivery?: Delivery;
  endedAt?: string;
  expiresAt: string;
  forkedFrom?: string;
  head?: string;
  id: string;
  key: string;
  owner?: string;
  reason?: string;
  sandbox?: string;
  settings: SessionSettings;
  state: "stored" | "running" | "warm" | "paused" | "closed";
  turnCount: number;
  turns?: SessionTurn[];
  usedAt: string;
  workspace?: string;
}

export interface SessionBackEvent {
  superseded: number;
  turn: number;
}

export interface SessionCancel {
  queued?: boolean;
  turn?: number;
}

export interface SessionCreate {
  agent?: string;
  author?: Identity;
  budget?: Budget;
  draft?: boolean;
  gateTimeoutMs?: number;
  key: string;
  largeModel?: string;
  mergeRequest?: boolean;
  model?: string;
  noSetup?: boolean;
  pausedMs?: number;
  push?: boolean;
  ref?: string;
  remote?: string;
  repository?: string;
  rounds?: number;
  sandbox?: CreateSandbox;
  target?: string;
  ttlMs?: number;
  verify?: string;
  warmMs?: number;
}

export interface SessionFork {
  key: string;
  turn?: number;
}

export interface SessionForkedEvent {
  key: string;
  session: string;
  turn: number;
}

export interface SessionMessage {
  create?: SessionSettings;
  mode?: "queue" | "interrupt";
  text: string;
}

export interface SessionRestore {
  turn: number;
}

export interface SessionRestoredEvent {
  how: string;
  messages: number;
  ms: number;
  sandbox: string;
  turn: number;
}

export interface SessionSettings {
  agent?: string;
  author?: Identity;
  budget?: Budget;
  draft?: boolean;
  gateTimeoutMs?: number;
  largeModel?: string;
  mergeRequest?: boolean;
  model?: string;
  noSetup?: boolean;
  pausedMs?: number;
  push?: boolean;
  ref?: string;
  remote?: string;
  repository?: string;
  rounds?: number;
  sandbox?: CreateSandbox;
  target?: string;
  ttlMs?: number;
  verify?: string;
  warmMs?: number;
}

export interface SessionStateEvent {
  reason?: string;
  state: "stored" | "running" | "warm" | "paused" | "closed";
}

export interface SessionTurn {
  answer?: string;
  changed?: boolean;
  checkpoint?: boolean;
  createdAt: string;
  delivery?: Delivery;
  endedAt?: string;
  error?: Error;
  head?: string;
  mode?: "queue" | "interrupt";
  n: number;
  note?: string;
  outcome?: "verified" | "needs_human" | "declined" | "canceled" | "failed" | "lost" | "answered";
  receipt?: Receipt;
  restored?: string;
  restoredMs?: number;
  startedAt?: string;
  state: "queued" | "running" | "done" | "removed";
  superseded?: boolean;
  task?: string;
  text: string;
  usage?: Usage;
}

export interface SetRepositoryHook {
  hook: RepositoryHook;
  newSecret?: boolean;
}

export interface SetRepositoryPolicy {
  dryRun?: boolean;
  policy: RepositoryPolicy;
}

export interface SharedMemory {
  bytes: number;
  file?: boolean;
  holder?: string;
  name: string;
  totalBytes: number;
}

export interface SignalExec {
  signal: number;
}

export interface Snapshot {
  account?: string;
  archived?: string;
  buildKey?: string;
  bytes: number;
  createdAt: string;
  defaults?: CommandDefaults;
  egressPolicy?: EgressPolicy;
  endedAt?: string;
  id: string;
  idePort?: number;
  identities?: string[];
  image: ImageMark;
  key?: string;
  kind: "memory" | "files";
  layers: string[];
  limits: Limits;
  lineage?: string;
  listeners?: Listener[];
  listenersError?: string;
  name?: string;
  onRestore?: string;
  otherNames?: string[];
  owner?: string;
  parent?: string;
  paused?: boolean;
  pausedMs: number;
  privateTraffic?: boolean;
  reason?: string;
  sandbox: string;
  sharedBytes?: number;
  state: "saving" | "ready" | "broken" | "removed";
  template: string;
  why?: string;
}

export interface Stats {
  at: string;
  cpuTimeMs: number;
  diskSharedBytes: number;
  diskTotalBytes: number;
  diskUsedBytes: number;
  memoryBytes: number;
  memoryKills: number;
  memoryOwnBytes: number;
  memoryPeakBytes: number;
  memorySharedBytes: number;
  processes: number;
  sharedMemory?: SharedMemory[];
}

export interface StoredDocument {
  bytes: number;
  key?: string;
  name: string;
  repository?: string;
  text?: string;
  title: string;
  version: number;
  writtenAt: string;
}

export interface Stream {
  id: string;
  kind: string;
}

export interface SyncRepository {
  prepare?: boolean;
}

export interface TTL {
  ttlMs: number;
}

export interface TagSnapshot {
  tags: string[];
}

export interface TakeBrowser {
  token?: string;
}

export interface Task {
  account?: string;
  attempts?: Attempt[];
  calls?: RoleCalls[];
  continues?: string;
  create: CreateTask;
  createdAt: string;
  diagnosis?: string;
  endedAt?: string;
  envNames?: string[];
  error?: Error;
  id: string;
  key?: string;
  lessons?: string[];
  lessonsBy?: Record<string, number>;
  model: string;
  models?: Models;
  moves?: TaskMove[];
  node?: string;
  outcome?: "verified" | "needs_human" | "declined" | "canceled" | "failed" | "lost" | "answered";
  owner?: string;
  plan?: ExecutionPlan;
  question?: string;
  receipt?: Receipt;
  reply?: string;
  repo?: RepoResult;
  session?: string;
  startedAt?: string;
  state: "pending" | "running" | "done";
  usage?: Usage;
  value?: unknown;
}

export interface TaskMove {
  at: string;
  from: string;
  to: string;
  why: "drained" | "ended";
}

export interface TaskRepository {
  name: string;
  ref?: string;
  remote?: string;
  url: string;
}

export interface TaskStats {
  attemptsPerSuccess: number;
  errors: Record<string, number>;
  failures: FailureCount[];
  lessons?: LessonStats;
  missing: MissingCount[];
  models: ModelUse[];
  outcomes: Record<string, number>;
  phases: PhaseTime[];
  programs: number;
  replays: number;
  repositories?: number;
  requests: number;
  roundsPerSuccess?: number;
  running: number;
  since?: string;
  stops?: Record<string, number>;
  successRate: number;
  tasks: number;
}

export interface Template {
  image?: Image;
  name: string;
  snapshot?: Snapshot;
}

export interface TemplateLine {
  error?: Problem;
  snapshot?: Snapshot;
  step?: string;
  type: "step" | "output" | "waiting" | "done" | "error";
}

export interface TemplateReport {
  asked?: string[];
  digest: string;
  error?: string;
  fingerprint: string;
  hidden: number;
  libraries?: Library[];
  name: string;
  notAsked?: string;
  toolchains?: Toolchain[];
  tools: Tool[];
}

export interface TestReport {
  before?: number;
  failed?: number;
  failedTests?: string[];
  fixed?: number;
  missing?: string[];
  missingCount?: number;
  new?: number;
  old?: string[];
  oldCount?: number;
  oldOnly?: boolean;
  passed: number;
  regressions?: number;
  runner: string;
  skipped?: number;
  unstable?: UnstableTest[];
  why?: string;
}

export interface TierEvent {
  commit: string;
  hit: boolean;
  key: string;
  ms?: number;
  part: string;
  tier: string;
}

export interface TodoEvent {
  candidate?: number;
  items: TodoItem[];
  round: number;
  step: number;
}

export interface TodoItem {
  state: string;
  text: string;
}

export interface Tool {
  install?: string;
  name: string;
  path?: string;
  present: boolean;
  version?: string;
}

export interface ToolEvent {
  agent?: string;
  candidate?: number;
  failed?: boolean;
  input?: string;
  ms: number;
  output?: string;
  round: number;
  step: number;
  tool: string;
}

export interface Toolchain {
  name: string;
  path: string;
  setting: string;
  shown: boolean;
  version: string;
}

export interface Unenforced {
  limit: string;
  reason: string;
}

export interface UnstableTest {
  before?: boolean;
  name: string;
  passed: number;
  runs: number;
}

export interface UpdateWorkspace {
  quotaBytes: number;
}

export interface UpdatedEvent {
  expiresAt: string;
}

export interface Usage {
  cachedTokens?: number;
  costUsd?: number;
  inputTokens?: number;
  outputTokens?: number;
  requests?: number;
  unpriced?: number;
}

export interface UserRecord {
  gid: number;
  groups?: number[];
  home: string;
  name: string;
  uid: number;
}

export interface Variant {
  agent?: string;
  model?: string;
  strategy?: string;
  temperature?: number;
}

export interface Version {
  arch: string;
  build: string;
  go: string;
  guestEmbedded: boolean;
  gvisor?: string;
  os: string;
  version: string;
}

export interface WaitLine {
  answer?: unknown;
  error?: Problem;
  type: "step" | "output" | "waiting" | "done" | "error";
  waiting?: WaitingEvent;
}

export interface WaitRequest {
  timeout?: number;
}

export interface WaitingEvent {
  cause: string;
  of: number;
  position: number;
  waitedMs: number;
  why: string;
}

export interface WantedFile {
  path: string;
  why?: string;
}

export interface Watched {
  any?: boolean;
  changed?: Stream[];
  event?: Event;
}

export interface WorkMove {
  key?: string;
  plan?: string;
  reason?: string;
  session?: string;
  state: string;
  task?: string;
  to?: string;
}

export interface Workspace {
  account?: string;
  archived?: WorkspaceArchive;
  createdAt: string;
  endedAt?: string;
  id: string;
  keep?: boolean;
  layers: string[];
  name?: string;
  owner?: string;
  parent?: string;
  quotaBytes?: number;
  reason?: string;
  sandbox?: string;
  session?: string;
  state: "idle" | "active" | "removed";
  task?: string;
  usage?: WorkspaceUsage;
  version?: WorkspaceVersion;
}

export interface WorkspaceArchive {
  bytes: number;
  layers: string[];
  of: string;
  ref: string;
  step: string;
  storedAt: string;
  task: string;
}

export interface WorkspaceChange {
  kind: "added" | "modified" | "removed";
  mode?: string;
  noText?: string;
  oldSize: number;
  path: string;
  size: number;
  text?: string;
}

export interface WorkspaceDiff {
  added: number;
  bytes: number;
  changes: WorkspaceChange[];
  complete: boolean;
  modified: number;
  refused?: RefusedChange[];
  removed: number;
  workspace: string;
}

export interface WorkspaceUsage {
  bytes: number;
  files: number;
  incomplete?: string;
  quota?: string;
}

export interface WorkspaceVersion {
  changed?: boolean;
  conflict?: string;
  host?: string;
  number: number;
  storedAt?: string;
  waiting?: string;
}

export interface Workstream {
  id: string;
  kind: string;
  repository: string;
  since: string;
  title: string;
  touches: string[];
  waits?: boolean;
  waitsFor?: string[];
}

export interface WriteInfo {
  metadata?: Record<string, string>;
  name: string;
  path: string;
  type: string;
}
