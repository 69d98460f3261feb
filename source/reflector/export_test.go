package reflector

// Transitions is the table of transitions, for the tests.
var Transitions = transitions
