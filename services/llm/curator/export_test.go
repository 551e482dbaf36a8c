package curator

// What the tests call of the package's own.
var ReadAnswer = readAnswer

// Slack is by how much a rewritten text may be longer than the two it is made of.
const Slack = slack
