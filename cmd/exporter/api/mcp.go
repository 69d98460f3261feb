package api

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"kubecdc/agent"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/plain"
)

const mcpHelp = `Let an agent ask the log: an MCP server (Model Context Protocol) on stdin and stdout.

  claude mcp add kubecdc -- exporter mcp
  exporter mcp --log incident.db

Its tools only read: what_changed, object_history, state_at, difference, coverage. Each
answer says which moment it is of, who made a change and how certain that is, and what
the log lacks. "There was no change" is said only where the log proves it. Long answers
come in pages of one state of the log. The agent sees what you may read, which with
SQLite is the file. Redacted values remain redacted.
`

// NewMCP returns the command exporter mcp.
func NewMCP() *cobra.Command {
	c := &cobra.Command{Use: "mcp [flags]", Short: "Let an agent ask the log (Model Context Protocol)", Long: mcpHelp,
		Args: cli.Args(0, 0), RunE: runMCP}
	cli.WithNoMirror(c)
	return cli.ReadsLog(c, cli.OfLog)
}

func runMCP(c *cobra.Command, _ []string) error {
	reader, remark, err := cli.OpenMirrored(c.Context(), c)
	if err != nil {
		return err
	}
	defer reader.Close()
	if remark != "" {
		plain.Fprintln(c.ErrOrStderr(), "# "+remark)
	}
	return cli.UntilStopped(agent.Server(reader, cli.Version).Run(c.Context(), &mcp.StdioTransport{}))
}
