package consumer

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// The variable that names a wrapper script, and the layer's, in the directory where Lambda unpacks layers.
const (
	wrapperVariable = "AWS_LAMBDA_EXEC_WRAPPER"
	wrapperScript   = "/opt/idemsk"
)

// wrapped reports whether the function runs behind the layer.
func (p *Props) wrapped() bool { return p.Function.Runtime != ProvidedAL2023 }

// runtime returns the function's runtime. The construct needs no more of it than its name, so a new one needs
// no new CDK.
func (p *Props) runtime() (runtime awslambda.Runtime, handler *string) {
	if !p.wrapped() {
		return nil, nil
	}
	return awslambda.NewRuntime(&p.Function.Runtime, awslambda.RuntimeFamily_OTHER, nil), &p.Function.Handler
}

// addLayer puts the function behind the layer, if it is not written with the library.
func (c *Consumer) addLayer() {
	p := &c.props
	if !p.wrapped() {
		return
	}
	c.Layer = awslambda.NewLayerVersion(c.Construct, jsii.String("Layer"), &awslambda.LayerVersionProps{
		Description:             jsii.String("idemsk: idempotency for functions in any language"),
		Code:                    awslambda.Code_FromAsset(&p.Function.LayerZip, nil),
		CompatibleArchitectures: &[]awslambda.Architecture{architecture(p.Function.Architecture)},
	})
	c.Function.AddLayers(c.Layer)
	// A version is published when the function's properties change. They contain a reference to the layer,
	// not its content.
	c.Function.InvalidateVersionBasedOn(jsii.String(digest(p.Function.LayerZip)))
}

// digest returns the hash of a file that Check has read.
func digest(path string) string {
	file, err := os.Open(path) //nolint:gosec // the caller's own file
	if err != nil {
		panic(err) // as the CDK does for an asset
	}
	defer func() { _ = file.Close() }() // it was only read
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		panic(err)
	}
	return hex.EncodeToString(hash.Sum(nil))
}
